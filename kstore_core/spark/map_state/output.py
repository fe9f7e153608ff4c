"""The class that collects the rows of a user's function, and converts them to an Arrow batch."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from kstore_core.errors import SpecError
from kstore_core.spark.map_state.values import BYTES, ConversionError, column_of, short

__all__ = ["OutputRows"]


class OutputRows:
    """The rows that the calls of a user's function have returned.

    The object also stores the key of each call, so that an error about a row can name the key.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names = tuple(schema.names)
        self._width = len(self._names)
        self._rows: list[tuple[Any, ...]] = []
        self._starts: list[int] = []
        self._callers: list[Any] = []

    def add(self, caller: object, given: object) -> None:
        """Add the result ``given`` of the function for the key ``caller``.

        Raises SpecError if ``given`` is neither None nor an iterable of rows of the schema.
        """
        if given is None:
            return
        if isinstance(given, (str, Mapping, *BYTES)) or not isinstance(given, Iterable):
            raise SpecError(
                f"the output for the key {caller!r} is {short(given)}, but must be None or an "
                "iterable of rows; return a single row as a list of one tuple or dict"
            )
        rows = self._rows
        start = len(rows)
        self._starts.append(start)
        self._callers.append(caller)
        for row in given:
            if isinstance(row, tuple):
                if len(row) != self._width:
                    raise SpecError(
                        f"{self._where(len(rows))} has {len(row)} columns, but the schema has the "
                        f"{self._width} columns {', '.join(self._names)}"
                    )
                rows.append(row)
            elif isinstance(row, dict):
                rows.append(self._of_dict(row))
            else:
                raise SpecError(
                    f"{self._where(len(rows))} is {short(row)}, but must be a tuple or a dict"
                )

    def batch(self) -> pa.RecordBatch:
        """Convert all rows to one Arrow batch.

        Raises SpecError if a value does not fit its column.
        """
        columns = list(zip(*self._rows, strict=True)) or [()] * self._width
        arrays = []
        for field, values in zip(self.schema, columns, strict=True):
            try:
                arrays.append(column_of(values, field))
            except ConversionError as misfit:
                raise SpecError(
                    f"{self._where(misfit.index)}, column {field.name + misfit.path!r}: "
                    f"{misfit.reason}"
                ) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _of_dict(self, row: dict[str, Any]) -> tuple[Any, ...]:
        try:
            whole = tuple([row[name] for name in self._names])
        except KeyError as missing:
            raise SpecError(
                f"{self._where(len(self._rows))} has no column {missing.args[0]!r}; return None as "
                "the value of this column for a null"
            ) from None
        if len(row) != self._width:
            unknown = next(name for name in row if name not in self._names)
            raise SpecError(
                f"{self._where(len(self._rows))} has the unknown column {unknown!r}; the columns "
                f"of the schema are {', '.join(self._names)}"
            )
        return whole

    def _where(self, row: int) -> str:
        call = bisect.bisect_right(self._starts, row) - 1
        return f"row {row - self._starts[call]} of the output for the key {self._callers[call]!r}"
