"""A check that the spec with which a store is opened fits the stored rows.

A directory that Kafka Streams wrote does not contain the store's spec. If a spec has a wrong
segment interval, shape or key order, reads miss rows, and rows expire too early. The check compares
the first and the last row of each namespace with the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from pathlib import Path

from kstore_core.clock import segment_id
from kstore_core.engine import Database
from kstore_core.errors import FormatError, InconsistentStateError
from kstore_core.keys import rows_of
from kstore_core.spec import StoreSpec
from kstore_core.tables import OFFSETS

__all__ = ["Fitting", "end_keys"]


class Fitting:
    """The check that the rows in a store's segments fit the spec of the store.

    Parameters
    ----------
    spec : StoreSpec
        The spec with which the store is opened.
    where : Path
        The directory of the store, for errors.
    starts : iterable of int
        The start times of the store's segments in ms. An error uses them to suggest an interval.
    """

    def __init__(self, spec: StoreSpec, where: Path, starts: Iterable[int] = ()) -> None:
        assert spec.segment_interval_ms is not None
        self._spec = spec
        self._where = where
        self._starts = tuple(starts)
        self._interval = spec.segment_interval_ms
        self._time_of = rows_of(spec.shape, time_ordered=spec.time_ordered).segment_time

    def check(self, keys: Iterable[bytes], number: int) -> None:
        """Check that stored keys belong to a segment.

        Parameters
        ----------
        keys : iterable of bytes
            The stored keys, without a segment id.
        number : int
            The id of the segment that contains the keys.

        Raises
        ------
        InconsistentStateError
            A key has no time, or its time lies outside the segment.
        """
        start = number * self._interval
        for key in keys:
            time = _time(self._time_of, key)
            if time is None or segment_id(time, self._interval) != number:
                raise InconsistentStateError(
                    f"the spec (a {_worded(self._spec.shape, self._spec.time_ordered)} store "
                    f"with segment_interval_ms={self._interval}) does not fit the rows: the "
                    f"segment {self._spec.name}.{start} in {self._where} contains a row with "
                    f"{'no time' if time is None else f'the time {time}'}, which does not lie in "
                    "this segment. Nothing was changed. Open the store with the spec that it was "
                    "written with"
                    f"{self._better(key, start, time)}"
                )

    def _better(self, key: bytes, start: int, time: int | None) -> str:
        """Return a suggestion of an interval or shape that fits the row, or an empty text."""
        width = gcd(*self._starts)
        if time is not None and 0 <= time - start < width:
            return f": segment_interval_ms={width} would fit"
        kinds = [
            _worded(shape, ordered)
            for shape in ("window", "session")
            for ordered in (False, True)
            for found in [_time(rows_of(shape, time_ordered=ordered).segment_time, key)]
            if found is not None and segment_id(found, self._interval) * self._interval == start
        ]
        return f": a {' or a '.join(kinds)} store would fit" if kinds else ""


def end_keys(database: Database, id_bytes: int = 0) -> list[bytes]:
    """Return the first and the last key of each namespace that contains rows, except offsets.

    Parameters
    ----------
    database : Database
    id_bytes : int
        The size in bytes of the segment id at the beginning of each key. If it is not 0, the result
        also contains the first key of the last segment.
    """
    found = []
    for name in database.namespaces():
        namespace = database.namespace(name)
        last = None if name == OFFSETS else namespace.first(reverse=True)
        if last is not None:
            rows = [namespace.first(), last]
            if id_bytes:
                rows.append(namespace.first(last[0][:id_bytes]))
            found += [row[0] for row in rows if row is not None]
    return found


def _time(time_of: Callable[[bytes], int], key: bytes) -> int | None:
    """Return the time in a row's key in ms, or None if the key contains no valid time."""
    try:
        time = time_of(key)
    except FormatError:
        return None
    return time if time >= 0 else None


def _worded(shape: str, ordered: bool) -> str:
    return f"time-ordered {shape}" if ordered else shape
