"""The move of the rows of a store from the old tasks to the new tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from math import gcd
from pathlib import Path

from kstore_core.codec import murmur2
from kstore_core.errors import SpecError, StateError
from kstore_core.keys import rows_of
from kstore_core.maintenance.migrate.contents import LOAD_BYTES, Contents, opened
from kstore_core.maintenance.migrate.results import MigrateProgress, ProgressCallback
from kstore_core.maintenance.rescale.expiry import (
    earliest_row,
    merged_stream_time,
    reached_stream_time,
)
from kstore_core.maintenance.rescale.sources import Inherited, Source, inherited
from kstore_core.maintenance.rescale.tasks import Tasks
from kstore_core.offsets.entries import Entries
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import START

__all__ = ["TARGETS", "Move"]

TARGETS = 8
"""The maximum number of new stores that are open at the same time.

An engine buffers writes of each open store in memory. If there are more new tasks, the old tasks
are read once for each group of this many new tasks.
"""

_SEGMENT_BYTES = 8


class Move:
    """The move of one store.

    Parameters
    ----------
    tasks : Tasks
        The old tasks.
    source : Source
        The store in the old tasks.
    targets : list of Path
        The directories of the new tasks.
    keep_offsets : bool
        True to keep the offsets of the input.
    callback : callable
        The function to call with the progress.

    Raises
    ------
    StateError
        The metadata of the old tasks cannot be merged.
    """

    def __init__(
        self,
        tasks: Tasks,
        source: Source,
        targets: list[Path],
        callback: ProgressCallback,
        *,
        keep_offsets: bool,
    ) -> None:
        self._tasks = tasks
        self._source = source
        self._targets = targets
        self._callback = callback
        before, after = len(tasks.directories), len(targets)
        step = gcd(before, after)
        # The hash of a key that moves from the old task i to the new task j is congruent to i and
        # to j, modulo the greatest common divisor of the two numbers of tasks.
        self._classes = [(range(r, before, step), range(r, after, step)) for r in range(step)]
        self._inherited = [
            inherited(tasks, source, parents, keep_offsets=keep_offsets)
            for parents, _ in self._classes
        ]

    def run(self) -> int:
        """Move all rows, and return their number."""
        count = 0
        for (parents, children), metadata in zip(self._classes, self._inherited, strict=True):
            for begin in range(0, len(children), TARGETS):
                count += self._move(parents, children[begin : begin + TARGETS], metadata)
        return count

    def _move(self, parents: range, children: range, metadata: Inherited) -> int:
        """Write the stores of the new tasks ``children`` from rows of the old tasks ``parents``."""
        engine, spec = self._tasks.engine, self._source.spec
        with ExitStack() as stack:
            new = {
                number: _NewStore(
                    stack.enter_context(opened(engine, self._targets[number], spec, writable=True))
                )
                for number in children
            }
            times = [time for parent in parents for time in self._read(parent, new)]
            stream_time = merged_stream_time(spec.shape, times)
            for number, store in new.items():
                store.contents.write(
                    Entries(
                        metadata.offsets or None,
                        metadata.position or None,
                        self._reached(number, store, stream_time),
                        self._source.stored,
                        metadata.notes or None,
                    )
                )
        return sum(store.rows for store in new.values())

    def _read(self, number: int, new: Mapping[int, _NewStore]) -> list[int | None]:
        """Move the rows of an old task to some new tasks.

        Return a list with the stream time of the old task. The stream time is None if it is unknown
        and the task has rows. The list is empty if the task has neither rows nor a stream time.
        """
        spec = self._source.spec
        before, after = len(self._tasks.directories), len(self._targets)
        user_key, time_of = _user_key(spec), _time_of(spec)
        staged, seen = 0, 0
        with opened(self._tasks.engine, self._tasks.directories[number], spec) as contents:
            stream_time = contents.record.stream_time
            earliest = 0 if time_of is None else earliest_row(spec, stream_time)
            total = contents.about()
            for keys, rows in contents.rows():
                for key, row in zip(keys, rows, strict=True):
                    user = user_key(key)
                    digest = murmur2(user) & 0x7FFFFFFF
                    if digest % before != number:
                        raise self._misplaced(user, number, digest % before)
                    store = new.get(digest % after)
                    if store is None:
                        continue
                    if time_of is not None:
                        time = time_of(key)
                        if time < earliest:
                            continue
                        store.note(time)
                    store.keys.append(key)
                    store.values.append(row)
                    staged += len(key) + len(row)
                seen += len(keys)
                self._callback(MigrateProgress(spec.name, "move", seen, max(seen, total)))
                if staged >= LOAD_BYTES:
                    _load(new)
                    staged = 0
            _load(new)
        has_none = stream_time == START or (stream_time is None and not seen)
        return [] if has_none else [stream_time]

    def _misplaced(self, key: bytes, number: int, place: int) -> SpecError:
        task = self._tasks.directories[number]
        return SpecError(
            f"the key {key[:40]!r} of the store {self._source.spec.name!r} is in {task}, but "
            f"Kafka's murmur2 partitioner puts it into partition {place} of "
            f"{len(self._tasks.directories)}. So the application had another number of tasks, "
            "another partitioner, or keys in the store that are not the keys of its input. Such a "
            "store cannot be rescaled; let the application build it again from its input"
        )

    def _reached(self, number: int, store: _NewStore, stream_time: int | None) -> int | None:
        """Return the stream time of a new store.

        Raise a StateError if rows of the old tasks that can be read would expire at this stream
        time.
        """
        spec = self._source.spec
        apart = self._tasks.engine.capabilities.children
        if stream_time is None or not apart:
            return stream_time
        reached, expires = reached_stream_time(spec, stream_time, store.earliest, store.latest)
        if expires:
            raise StateError(
                f"the new task {self._targets[number].name} would get rows of the store "
                f"{spec.name!r} from tasks whose stream times differ by more than the store's "
                "retention allows. The stream time of the new store cannot be before "
                f"{reached}, the beginning of its newest segment, so the row of the time "
                f"{store.earliest} would expire. Rescale to a multiple of the present number of "
                "tasks, so that no tasks are merged. Or let the application process newer records "
                "in all tasks, and rescale again"
            )
        return reached


class _NewStore:
    """A store of a new task, and the rows that are not written to the store yet.

    Attributes
    ----------
    earliest : int or None
        The least time in ms of a row; None if there are no rows or the store has no segments.
    latest : int
        The greatest time in ms of a row.
    """

    __slots__ = ("contents", "earliest", "keys", "latest", "rows", "values")

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.rows = 0
        self.earliest: int | None = None
        self.latest = 0

    def note(self, time: int) -> None:
        if self.earliest is None or time < self.earliest:
            self.earliest = time
        if time > self.latest:
            self.latest = time


def _load(new: Mapping[int, _NewStore]) -> None:
    """Write the rows that the stores have collected. The rows are in the order of the table."""
    for store in new.values():
        if store.keys:
            store.contents.load(iter([(store.keys, store.values)]))
            store.rows += len(store.keys)
            store.keys, store.values = [], []


def _user_key(spec: StoreSpec) -> Callable[[bytes], bytes]:
    """Return a function that returns the user's key of a row key."""
    if spec.shape == "key_value":
        return lambda key: key
    if spec.shape == "versioned":
        return lambda key: key[_SEGMENT_BYTES:]
    split = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed).split
    return lambda key: split(key)[0]


def _time_of(spec: StoreSpec) -> Callable[[bytes], int] | None:
    """Return a function that returns the time of a row key in ms; None without segments."""
    if spec.shape not in ("window", "session"):
        return None
    return rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed).segment_time
