"""The progress that a task stores for the next task of its shard.

A Spark task runs the processors of a shard for one micro-batch. The store `PROGRESS` of the shard
contains the times, the next calls of schedules, and the output of the last micro-batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Self

from kstore_core import serdes, stores
from kstore_core.errors import CorruptionError, UnsupportedError
from kstore_core.processing import Task

__all__ = ["OUTPUT", "PROGRESS", "Progress"]

PROGRESS = stores.key_value("kstore-progress", key=serdes.UTF8)
"""The store of each shard that contains the progress. No processor uses this store."""

OUTPUT = "output"
"""The key of the output of the last micro-batch."""

_KEY = "progress"


@dataclass
class Progress:
    """The state of a task at the end of a micro-batch.

    Attributes
    ----------
    stream_time : int
    partition_times : dict of str to dict of int to int
        The partition time of each topic and partition in ms.
    sent : int
        The number of records that sinks of the shard have sent.
    next_offsets : dict of str to int
        The next offset of each topic whose source has no offsets.
    schedules : dict of str to int or None
        The time of the next call of each schedule in ms, or None if the schedule was cancelled.
    """

    stream_time: int = -1
    partition_times: dict[str, dict[str, int]] = field(default_factory=dict)
    sent: int = 0
    next_offsets: dict[str, int] = field(default_factory=dict)
    schedules: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Any, where: str) -> Self | None:
        """Read the progress of a shard. Return None if the shard has none.

        Raises CorruptionError if the progress cannot be read.
        """
        stored = store.get(_KEY)
        try:
            return None if stored is None else cls(**json.loads(stored))
        except (ValueError, TypeError) as error:
            raise CorruptionError(
                f"the progress of the task in {where} cannot be read ({error}). If a newer kstore "
                "wrote it, upgrade kstore; if not, pass another root and a new checkpoint"
            ) from error

    def put(self, store: Any) -> None:
        """Write the progress to the store of a shard."""
        store.put(_KEY, json.dumps(vars(self), separators=(",", ":")).encode())

    def resume(self, task: Task) -> None:
        """Copy the times and the schedules of this progress to a new task."""
        context = task.context
        context.stream_time = self.stream_time
        for topic, times in self.partition_times.items():
            for partition, time in times.items():
                context.partition_times[topic, int(partition)] = time
        for schedules in context.schedules.values():
            schedules.resume(self.schedules)

    def take(self, task: Task, made: set[str]) -> None:
        """Copy the times and the schedules of a task to this progress, at the end of the task.

        ``made`` contains the names of the schedules that the processors made in `init`. Raises
        UnsupportedError if the task has a schedule that is not in ``made``.
        """
        context = task.context
        self.stream_time = context.stream_time
        self.partition_times = {}
        for (topic, partition), time in context.partition_times.items():
            self.partition_times.setdefault(topic, {})[str(partition)] = time
        times = {one.name: one.time for kind in context.schedules.values() for one in kind}
        later = sorted(times.keys() - made)
        if later:
            raise UnsupportedError(
                f"the processor {later[0].rpartition('/')[0]!r} made a schedule after init(). On "
                "Spark, processors are made again for each micro-batch, so this schedule would be "
                "lost. Make all schedules in init()"
            )
        self.schedules = {name: times.get(name) for name in sorted(made)}
