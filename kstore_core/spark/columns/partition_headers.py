"""Functions that read and write the header ``partition-time`` in a column of headers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow
from kstore_core.errors import FormatError
from kstore_core.partition_time import HEADER
from kstore_core.spark.columns.arrow import sliced

__all__ = ["NO_TIME", "header_times", "latest_partition_time", "stamped"]

Times = npt.NDArray[np.int64]

NO_TIME = np.iinfo(np.int64).min
"""The number that stands for the partition time of a row without the header ``partition-time``.

This number is less than every partition time.
"""


def stamped(headers: pa.Array, read: Times, sent: Times) -> pa.Array:
    """Replace the header ``partition-time`` in each row's headers, and return the new column.

    ``read`` and ``sent`` contain times in ms, with one time for each row. A row gets a header with
    its time in ``read``. If the row's time in ``sent`` is greater than the time in ``read``, the
    row also gets a second header with the time in ``sent``. A null in ``headers`` means that the
    row has no headers. See :mod:`kstore_core.partition_time` for the meaning of the two times.
    """
    kind = arrow.headers_type()
    whole = headers.cast(kind)
    pairs, owners = whole.flatten(), pc.list_parent_indices(whole)
    others = pc.fill_null(pc.not_equal(pc.struct_field(pairs, "key"), HEADER), True)
    further = np.flatnonzero(sent > read)
    added = np.concatenate([read, sent[further]])
    keys = pa.array([HEADER], pa.string()).take(pa.array(np.zeros(len(added), np.int64)))
    values = sliced(added.astype(">i8").tobytes(), 8)
    times = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    remaining = owners.filter(others).to_numpy().astype(np.int64)
    owner = np.concatenate([remaining, np.arange(len(whole)), further])
    order = np.argsort(owner, kind="stable")
    offsets = np.zeros(len(whole) + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=len(whole)), out=offsets[1:])
    everything = pa.concat_arrays([pairs.filter(others), times])
    return pa.ListArray.from_arrays(pa.array(offsets), everything.take(pa.array(order)), type=kind)


def latest_partition_time(headers: pa.ChunkedArray) -> int | None:
    """Return the greatest partition time in a column of headers, or None if no row has the header.

    Raises FormatError if the value of a header ``partition-time`` does not have 8 bytes.
    """
    latest = [int(times.max()) for _, times in map(_times, headers.chunks) if len(times)]
    return max(latest, default=None)


def header_times(headers: pa.Array | None, count: int) -> tuple[Times, Times]:
    """Return the partition times in the headers of ``count`` rows, as two arrays of times in ms.

    The first array contains each row's first header ``partition-time``, which is the greatest time
    of the partition up to this row. The second array contains each row's last header
    ``partition-time``, which is the greatest time before the next row of the partition. Both arrays
    contain ``NO_TIME`` for a row without the header. Raises FormatError if the value of a header
    ``partition-time`` does not have 8 bytes.
    """
    read, sent = np.full(count, NO_TIME), np.full(count, NO_TIME)
    if headers is not None:
        owners, times = _times(headers)
        sent[owners] = times  # The last assignment wins, so each row gets its last header.
        read[owners[::-1]] = times[::-1]  # In reverse order, each row gets its first header.
    return read, sent


def _times(headers: pa.Array) -> tuple[Times, Times]:
    """Return two arrays: the row and the time of each header ``partition-time``.

    The arrays are in the order of the rows.
    """
    pairs = headers.flatten()
    named = pc.equal(pc.struct_field(pairs, "key"), HEADER)
    values = pc.struct_field(pairs, "value").filter(named)
    sizes = pc.fill_null(pc.binary_length(values), -1)
    if len(values) and not pc.all(pc.equal(sizes, 8)).as_py():
        raise FormatError(
            f"the value of a row's header {HEADER!r} does not have 8 bytes, so the sender of the "
            "row uses this name for other data. Remove the header from the rows, or leave out "
            "partition_time"
        )
    owners = pc.list_parent_indices(headers).filter(named).to_numpy().astype(np.int64)
    return owners, np.frombuffer(b"".join(values.to_pylist()), ">i8").astype(np.int64)
