"""The user's keys and the segments of stored rows, as whole Arrow columns.

docs/formats.md has the layouts of row keys. Rows and index rows are moved as they are stored.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.spark.columns.log_keys import TIME_BYTES
from kstore_core.spec import StoreSpec

__all__ = ["segment_times", "user_keys"]

_SEGMENT_BYTES = 8
_END = 2**31 - 1  # This is greater than any key's length. A slice without end overflows in Arrow.


def user_keys(spec: StoreSpec, rows: pa.Array) -> pa.Array:
    """Return the serialised user's key of each row key.

    A user's key does not contain the times of a window or session, nor the segment of a version.
    """
    if spec.shape == "key_value":
        return rows
    if spec.shape == "versioned":
        return pc.binary_slice(rows, _SEGMENT_BYTES, _END)
    width = TIME_BYTES[spec.shape]
    if not spec.time_ordered:
        return pc.binary_slice(rows, 0, -width)
    of_index = pc.binary_slice(rows, 1, -width)
    if spec.shape == "session":
        of_rows = pc.binary_slice(rows, 1 + width, _END)
    else:
        of_rows = pc.binary_slice(rows, 9, -4)
    return pc.if_else(_are_index_rows(rows), of_index, of_rows)


def segment_times(spec: StoreSpec, rows: pa.Array) -> npt.NDArray[np.int64]:
    """Return the time in ms of each row key of a window or session store.

    The time is the window's start or the session's end, which determines the segment of the row.
    """
    width = TIME_BYTES[spec.shape]
    times = pc.binary_slice(rows, -width, 8 - width)
    if spec.time_ordered:
        times = pc.if_else(_are_index_rows(rows), times, pc.binary_slice(rows, 1, 9))
    fixed = times.cast(pa.binary(8))
    data = np.frombuffer(fixed.buffers()[1] or b"", ">i8", len(fixed), fixed.offset * 8)
    return data.astype(np.int64)


def _are_index_rows(rows: pa.Array) -> pa.Array:
    return pc.starts_with(rows, pattern=b"\1")
