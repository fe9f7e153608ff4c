"""The records that enter and leave a task, and its queues of records and of schedules."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from kstore_core.codec import Headers
from kstore_core.processing.java_order import TimeHeap

__all__ = ["Input", "Output", "RecordQueues", "Schedule", "Schedules"]


class Input(NamedTuple):
    """A record of an input topic, with the serialised key and value."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Output(NamedTuple):
    """A record that a sink sent, with the serialised key and value."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


class RecordQueues:
    """The records that a task has not processed yet, with a queue for each partition.

    As in Kafka Streams, the next record is the record with the least time among the first records
    of the queues.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], deque[Input]] = {}
        self._waiting: TimeHeap[deque[Input]] = TimeHeap(lambda queue: queue[0].timestamp)

    def add(self, record: Input) -> None:
        """Add a record at the end of the queue of its partition."""
        queue = self._queues.setdefault((record.topic, record.partition), deque())
        queue.append(record)
        if len(queue) == 1:
            self._waiting.push(queue)

    def take(self) -> Input | None:
        """Remove and return the next record, or return None if there is none."""
        queue = self._waiting.peek()
        if queue is None:
            return None
        if len(self._waiting) == 1 and len(queue) > 1:  # the queue stays the only one
            return queue.popleft()
        self._waiting.pop()
        record = queue.popleft()
        if queue:
            self._waiting.push(queue)
        return record


class Schedule:
    """A callback that is called at regular times, until it is cancelled.

    Attributes
    ----------
    time : int
        The time of the next call in ms.
    node : object
        The node of the processor that made the schedule.
    name : str
        The name of the node, and the number of the schedule among the schedules of the node.
    """

    def __init__(
        self,
        time: int,
        interval_ms: int,
        callback: Callable[[int], object],
        node: Any,
        name: str,
    ) -> None:
        self.time = time
        self.callback = callback
        self.node = node
        self.name = name
        self._interval_ms = interval_ms
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the schedule. Its callback is not called again. A second call does nothing."""
        self._is_cancelled = True

    @property
    def is_cancelled(self) -> bool:
        """True if :meth:`cancel` was called."""
        return self._is_cancelled

    def advance(self, now: int) -> None:
        """Increase `time` by at least one interval, to the first regular time after ``now``."""
        self.time += max(1, (now - self.time) // self._interval_ms + 1) * self._interval_ms


class Schedules:
    """The schedules of a task for one kind of time: stream time or wall-clock time."""

    def __init__(self) -> None:
        self._waiting: TimeHeap[Schedule] = TimeHeap(attrgetter("time"))

    def add(self, schedule: Schedule) -> None:
        """Add a schedule."""
        self._waiting.push(schedule)

    def __iter__(self) -> Iterator[Schedule]:
        """Iterate over the schedules that are not cancelled, in no particular order."""
        return (schedule for schedule in self._waiting if not schedule.is_cancelled)

    def resume(self, times: Mapping[str, int | None]) -> None:
        """Continue each schedule at the time at which an earlier task would have called it next.

        ``times`` contains the time of the next call by the names of the schedules. If the time of a
        schedule is None, the schedule is cancelled. A schedule that ``times`` does not name keeps
        its time.
        """
        schedules = sorted(self, key=attrgetter("name"))
        self._waiting = TimeHeap(attrgetter("time"))
        for schedule in schedules:
            time = times.get(schedule.name, schedule.time)
            if time is None:
                schedule.cancel()
            else:
                schedule.time = time
                self.add(schedule)

    def run(self, now: int, call: Callable[[Schedule], object]) -> bool:
        """Call ``call`` once for each schedule that is due. Return True if a schedule was due."""
        has_called = False
        while (first := self._waiting.peek()) is not None and first.time <= now:
            schedule = self._waiting.pop()
            if not schedule.is_cancelled:
                call(schedule)
                has_called = True
                if not schedule.is_cancelled:
                    schedule.advance(now)
                    self._waiting.push(schedule)
        return has_called
