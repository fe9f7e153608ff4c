"""The work of `with_partition_time`, which writes partition times into the headers of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.errors import SpecError
from kstore_core.spark.columns.arrow import combined, millis
from kstore_core.spark.columns.partition_headers import stamped
from kstore_core.stream_clock import START

__all__ = ["PartitionTimes"]


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """The function that adds partition times to the rows of a shard.

    Attributes
    ----------
    timestamp, headers : str
        The names of the column of times and of the column of headers.
    topics, offsets : bool
        True if the rows have a column ``topic``, or a column ``offset``.
    removed : str
        The name of a boolean column. The function removes the rows in which the column is true.
    schema : Schema
        The schema of the output, which lacks the column ``removed``.
    name : str
        The name of the work; see :class:`~kstore_core.spark.map_state.tasks.Work`.
    """

    timestamp: str
    headers: str
    topics: bool
    offsets: bool
    removed: str
    schema: pa.Schema
    name: str = "with_partition_time"

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Remove rows, and return the remaining rows with new headers.

        The result is sorted by partition and offset. ``store`` contains the partition time of each
        partition; the method updates these times.
        """
        if rows[self.timestamp].null_count:
            raise SpecError(
                f"{rows[self.timestamp].null_count} rows have a null in the column "
                f"{self.timestamp!r}, but partition time needs the time of every row; filter these "
                "rows out"
            )
        names, owner = self._partitions(rows)
        order = np.argsort(owner, kind="stable")
        if self.offsets:
            offsets = rows["offset"].to_numpy()
            order = np.lexsort((offsets, owner))
        rows, owner = rows.take(pa.array(order)), owner[order]
        times = millis(combined(rows[self.timestamp], self.timestamp))[0]
        known = [START if time is None else time for time in store.get_many(names)]
        read = _running(times, owner, np.array(known, np.int64))
        remains = ~combined(rows[self.removed], self.removed).to_numpy(zero_copy_only=False)
        for name, last in zip(names, _last_of(owner), strict=True):
            store.put(name, int(read[last]))
        given = rows.filter(pa.array(remains))
        headers = stamped(
            combined(given[self.headers], self.headers), read[remains], _sent(read, owner, remains)
        )
        columns = [
            headers if field.name == self.headers else combined(given[field.name], field.name)
            for field in self.schema
        ]
        fitting = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(fitting, schema=self.schema)

    def _partitions(self, rows: pa.Table) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Return the names of the partitions, and each row's index in these names."""
        whole = combined(rows["partition"], "partition").cast(pa.string())
        if self.topics:
            topic = pc.fill_null(combined(rows["topic"], "topic").cast(pa.string()), "")
            whole = pc.binary_join_element_wise(topic, whole, "-")
        coded = whole.dictionary_encode()
        return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


Numbers = npt.NDArray[np.int64]


def _running(times: Numbers, owner: Numbers, known: Numbers) -> Numbers:
    """Return the greatest time so far in each row's partition, including the time of the row.

    ``times`` contains the time of each row, and ``owner`` the index of its partition. The rows must
    be sorted by ``owner``. ``known`` contains each partition's greatest time before these rows.
    """
    found = np.maximum(times, known[owner])
    ends = _last_of(owner) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        np.maximum.accumulate(found[start:end], out=found[start:end])
    return found


def _sent(read: Numbers, owner: Numbers, remains: npt.NDArray[np.bool_]) -> Numbers:
    """Return, for each kept row, the partition time just before the partition's next kept row.

    ``read`` contains the result of `_running` for all rows. ``remains`` is True for the kept rows.
    For the last kept row of a partition, the result is the partition time after all rows.
    """
    places = np.flatnonzero(remains)
    following = np.append(places[1:], len(read)) - 1
    found: Numbers = read[np.minimum(following, _last_of(owner)[owner[places]])]
    return found


def _last_of(owner: Numbers) -> Numbers:
    """Return the position of each partition's last row. The rows must be sorted by partition."""
    return np.cumsum(np.bincount(owner)) - 1
