"""The rows of a shard in one micro-batch, which are grouped by key for a user's function.

The first read of a value decodes the whole column, for all keys at once. The rows of a key are
adjacent, so the values of a key are a slice of the decoded column.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow
from kstore_core.spark.columns.arrow import combined, millis
from kstore_core.spark.columns.headers import headers_list

__all__ = ["Groups", "Rows", "Times"]

Times = Literal["timestamp", "millis"]


class Rows(Sequence[Any]):
    """The sequence of the rows of one key, as named tuples of the DataFrame's columns.

    If `map_state` was called with ``order_by``, the rows are sorted by these columns. The values of
    a column of headers are :class:`~kstore_core.Headers`. The values of a column of timestamps are
    aware datetimes, or int milliseconds if `map_state` was called with ``timestamps="millis"``.
    Structs are dicts. An iteration over the rows decodes all columns. If you need only a few
    columns, it is faster to call :meth:`column`, which decodes only one column.
    """

    __slots__ = ("_all", "_end", "_start")

    def __init__(self, everything: _Decoded, start: int, end: int) -> None:
        self._all = everything
        self._start = start
        self._end = end

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self._all.table.column_names)}>"

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Any]:
        columns = map(self.column, self._all.table.column_names)
        return map(self._all.row._make, zip(*columns, strict=True))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(self._start, self._end)[index]
        everything = self._all
        return everything.row._make(
            everything.column(name)[place] for name in everything.table.column_names
        )

    def column(self, name: str) -> list[Any]:
        """Return the values of the column ``name``, with one value for each row.

        Raises KeyError for an unknown column.
        """
        return self._all.column(name)[self._start : self._end]

    def to_arrow(self) -> pa.Table:
        """Return these rows as an Arrow table, without copying data."""
        return self._all.table.slice(self._start, len(self))


class Groups:
    """The rows of a table, grouped by key. An iteration yields each serialised key and its `Rows`.

    ``keys`` contains the serialised key of each row. An iteration yields the keys in the order of
    their first rows. The rows of a key are sorted by the columns ``order_by``, with nulls last. The
    sort is stable.
    """

    def __init__(
        self, table: pa.Table, keys: pa.Array, order_by: Sequence[str], timestamps: Times
    ) -> None:
        coded = keys.dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        self.keys: list[bytes] = coded.dictionary.to_pylist()
        order: npt.NDArray[np.int64]
        if order_by:
            by_columns = pc.sort_indices(table, [(name, "ascending") for name in order_by])
            first = by_columns.to_numpy().astype(np.int64)
            order = first[np.argsort(codes[first], kind="stable")]
        else:
            order = np.argsort(codes, kind="stable")
        self._decoded = _Decoded(table.take(pa.array(order)), timestamps)
        counts = np.bincount(codes, minlength=len(self.keys))
        self._ends: list[int] = np.cumsum(counts).tolist()

    def __iter__(self) -> Iterator[tuple[bytes, Rows]]:
        start = 0
        for key, end in zip(self.keys, self._ends, strict=True):
            yield key, Rows(self._decoded, start, end)
            start = end


class _Decoded:
    """A table that decodes each column to a Python list when the column is first used."""

    def __init__(self, table: pa.Table, timestamps: Times) -> None:
        self.table = table
        self.row = _row_type(table.column_names)
        self._as_millis = timestamps == "millis"
        self._lists: dict[str, list[Any]] = {}

    def column(self, name: str) -> list[Any]:
        found = self._lists.get(name)
        if found is None:
            if name not in self.table.column_names:
                raise KeyError(
                    f"the rows have no column {name!r}; their columns are: "
                    f"{', '.join(self.table.column_names)}"
                )
            found = self._lists[name] = self._decode(combined(self.table[name], name))
        return found

    def _decode(self, column: pa.Array) -> list[Any]:
        kind = column.type
        if _are_headers(kind):
            return headers_list(column)
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return _times(column, as_millis=self._as_millis)
        return list(column.to_pylist())


def _row_type(names: list[str]) -> Any:
    """Make the class of the named tuples.

    A column whose name is not a Python identifier gets the name of its position, such as ``_3``.
    """
    return namedtuple("Row", names, rename=True)  # noqa: PYI024


def _are_headers(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is the type of a column of headers.

    It does not matter which fields of the type are nullable.
    """
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    element = kind.value_type
    if not pa.types.is_struct(element) or element.num_fields != len(arrow.HEADERS_FIELDS):
        return False
    key, value = element.field(0), element.field(1)
    texts = (pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())
    names = (key.name, value.name)
    return names == arrow.HEADERS_FIELDS and key.type in texts[0] and value.type in texts[1]


def _times(column: pa.Array, *, as_millis: bool) -> list[Any]:
    if as_millis:
        found = pa.array(millis(column)[0])
        found = found if not column.null_count else pc.if_else(column.is_null(), None, found)
        return list(found.to_pylist())
    local = column.cast(pa.timestamp("us")).to_pylist()
    return [None if time is None else time.replace(tzinfo=UTC) for time in local]
