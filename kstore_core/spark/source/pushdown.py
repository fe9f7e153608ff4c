"""The filters of a query that narrow a read of ``format("kstore")``.

Spark still evaluates every filter after the read. So a narrowed read may return too many rows, but
must return every row that passes the filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from kstore_core import serdes
from kstore_core.codec import partition
from kstore_core.errors import SpecError
from kstore_core.spark.read.plan import Part, ReadPlan, ScanTask
from kstore_core.spark.read.selection import Selection, key_bytes
from kstore_core.types import to_millis

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from kstore_core.spec import StoreSpec

__all__ = ["PushFilters", "narrowed", "scans_keep_their_filters"]

_EQUAL = (EqualTo, EqualNullSafe)
_FROM = (*_EQUAL, GreaterThan, GreaterThanOrEqual)
_UNTIL = (*_EQUAL, LessThan, LessThanOrEqual)
_BOUNDS = {
    "window": ("window_start", "window_end"),
    "session": ("session_start", "session_end"),
}
_KEY_TYPES: dict[Any, tuple[type, ...]] = {
    serdes.UTF8: (str,),
    serdes.BYTES: (bytes, bytearray),
    serdes.INT32: (int,),
    serdes.INT64: (int,),
    serdes.FLOAT64: (float,),
}


def scans_keep_their_filters() -> bool:
    """Return True if this PySpark reads each scan of a query with the filters of that scan.

    PySpark 4.1 to 4.3 use the reader of the last filtered scan for all scans that come from the
    same ``load()``, even for scans with other filters or without filters. The release that corrects
    this fault also adds the method ``pushLimit``.
    """
    return hasattr(DataSourceReader, "pushLimit")


class PushFilters:
    """The method ``pushFilters`` of a reader, in a form that Spark accepts with all settings.

    If the setting ``spark.sql.python.filterPushdown.enabled`` is not true, Spark refuses to read
    with a class that overrides ``pushFilters``. To find an override, Spark looks at ``__func__``.
    """

    def __init__(self, narrow: Callable[[list[Filter]], None]) -> None:
        self._narrow = narrow
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the read, and return all filters, so that Spark evaluates them as well."""
        self._narrow(filters)
        return filters


def narrowed(plan: ReadPlan, filters: Sequence[Filter]) -> ReadPlan:
    """Return a plan that reads at least the rows of ``plan`` that pass all filters.

    The plan is narrowed by the columns ``key`` and ``partition``, and by columns of times if the
    read returns windows, sessions or the history of a store.
    """
    parts = tuple(part for part in plan.parts if _in_partition(part, filters))
    task = plan.task
    if not isinstance(task, ScanTask):
        return replace(plan, parts=parts)
    spec = task.reader.spec
    keys, prefix = _keys(spec, task.selection, filters)
    if keys is not None:
        parts = tuple(
            replace(part, keys=there)
            for part in parts
            if (there := _keys_of(part, keys, plan.partitions))
        )
    if prefix == ():
        parts = ()
    elif isinstance(prefix, bytes) and all(part.keys is None for part in parts):
        task = replace(task, selection=replace(task.selection, prefix=prefix))
    selection = _between(spec, task.selection, filters)
    return replace(plan, task=replace(task, selection=selection), parts=parts)


def _in_partition(part: Any, filters: Iterable[Filter]) -> bool:
    """Return False if no row of a part passes the filters on the column ``partition``."""
    number = part.columns["partition"] if isinstance(part, Part) else getattr(part, "number", None)
    if number is None:
        return True
    for each in _on(filters, "partition"):
        value = each.value
        if isinstance(each, In):
            passes = number in value
        elif not _is_a(value, (int,)):
            continue
        else:
            passes = {
                EqualTo: number == value,
                EqualNullSafe: number == value,
                GreaterThan: number > value,
                GreaterThanOrEqual: number >= value,
                LessThan: number < value,
                LessThanOrEqual: number <= value,
            }.get(type(each), True)
        if not passes:
            return False
    return True


def _keys(
    spec: StoreSpec, selection: Selection, filters: Iterable[Filter]
) -> tuple[frozenset[bytes] | None, bytes | tuple[()] | None]:
    """Return the serialised keys that pass the filters, and their prefix.

    The keys are None if the filters do not enumerate them. The prefix is None if the read has no
    prefix yet and no filter has one, and is ``()`` if no key can have all prefixes.
    """
    keys: frozenset[bytes] | None = None
    prefix: bytes | tuple[()] | None = selection.prefix
    for each in _on(filters, "key"):
        if isinstance(each, StringStartsWith):
            if spec.key is serdes.UTF8 and prefix != ():
                prefix = _longer(prefix, each.value.encode())
            continue
        if not isinstance(each, (*_EQUAL, In)):
            continue
        values = each.value if isinstance(each, In) else [each.value]
        found = _serialised(spec, values)
        if found is not None:
            keys = found if keys is None else keys & found
    if keys is not None and isinstance(prefix, bytes):
        keys = frozenset(key for key in keys if key.startswith(prefix))
    return keys, prefix


def _longer(one: Any, other: bytes) -> bytes | tuple[()]:
    if one is None or other.startswith(one):
        return other
    return one if one.startswith(other) else ()


def _serialised(spec: StoreSpec, values: Iterable[Any]) -> frozenset[bytes] | None:
    """Return the stored keys that are equal to one of ``values``; None if unknown.

    A null is equal to no key. The result is None for the floats 0 and NaN, which have several
    encodings.
    """
    types = _KEY_TYPES.get(spec.key)
    found = set()
    for value in values:
        if value is None:
            continue
        if types is None or not _is_a(value, types):
            return None
        if isinstance(value, float) and (value == 0 or math.isnan(value)):
            return None
        try:
            found.add(key_bytes(spec, bytes(value) if types == (bytes, bytearray) else value))
        except SpecError:
            return None
    return frozenset(found)


def _keys_of(part: Part, keys: frozenset[bytes], partitions: int | None) -> tuple[bytes, ...]:
    """Return the keys among ``keys`` that a part may contain.

    ``partitions`` is the number of shards among which murmur2 distributes the keys; it is None if
    any part may contain any key.
    """
    number = part.columns["partition"]
    there = keys if part.keys is None else keys.intersection(part.keys)
    return tuple(
        sorted(key for key in there if partitions is None or partition(key, partitions) == number)
    )


def _between(spec: StoreSpec, selection: Selection, filters: Sequence[Filter]) -> Selection:
    """Return the selection with the bounds of time that the filters imply.

    Filters never set ``to_ts`` for the history of a versioned store. With a ``to_ts`` before a
    shard's history, the read would return only the latest version of each key, without older
    versions that the filters select.
    """
    if spec.shape == "key_value" or (spec.format.versioned and not selection.history):
        return selection
    columns = ("timestamp", "valid_to") if spec.format.versioned else _BOUNDS[spec.shape]
    first, last = selection.from_ts, selection.to_ts
    for each in (each for name in columns for each in _on(filters, name)):
        time = _millis(each.value)
        if time is None:
            continue
        if isinstance(each, _FROM):
            begin = max(time - 1, -(2**63))
            first = begin if first is None else max(first, begin)
        if isinstance(each, _UNTIL) and not spec.format.versioned:
            last = time if last is None else min(last, time)
    return replace(selection, from_ts=first, to_ts=last)


def _millis(value: Any) -> int | None:
    """Return a time in ms, rounded down, or None if the value is not an instant."""
    if _is_a(value, (int,)):
        return int(value)
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return to_millis(value)
    return None


def _on(filters: Iterable[Filter], column: str) -> list[Any]:
    """Return the filters that compare a column with a value."""
    return [
        each
        for each in filters
        if getattr(each, "attribute", None) == (column,) and hasattr(each, "value")
    ]


def _is_a(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)
