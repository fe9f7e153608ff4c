"""Functions that make and check the keys of a changelog's records.

In the changelog of a window or session store, each key consists of the user's key and the bytes of
the window's or session's times. A DataFrame may have such keys, or else the user's keys and
separate columns of times. Only the user's key determines the shard of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.errors import SpecError
from kstore_core.keys import MAX_TIME
from kstore_core.spark.columns.arrow import integers, millis, serialized, sliced
from kstore_core.spec import StoreSpec

__all__ = ["TIME_BYTES", "keys_of", "tail_bytes", "times_of_shape", "user_keys"]

TIME_BYTES = {"window": 12, "session": 16}
"""The number of bytes that follow the user's key in a changelog's key, by the store's shape."""

_TIMES = {"window": ("window_start",), "session": ("session_start", "session_end")}
_MAX_SEQUENCE = 2**31 - 1


def times_of_shape(spec: StoreSpec) -> tuple[str, ...]:
    """Return the columns of times that a DataFrame needs if its keys contain no times.

    The result is empty for a store without windows and sessions.
    """
    return _TIMES.get(spec.shape, ())


def tail_bytes(spec: StoreSpec, names: Collection[str]) -> int:
    """Return the number of bytes after the user's key in each value of the column ``key``.

    These bytes contain times. ``names`` contains the names of the DataFrame's columns. The result
    is 0 if the DataFrame has columns of times, or if the store has neither windows nor sessions.
    """
    times = times_of_shape(spec)
    return TIME_BYTES[spec.shape] if times and times[0] not in names else 0


def user_keys(spec: StoreSpec, keys: pa.Array) -> pa.Array:
    """Return the user's keys, which are the first part of the keys that :func:`keys_of` returns."""
    width = TIME_BYTES.get(spec.shape, 0)
    return pc.binary_slice(keys, 0, -width) if width and len(keys) else keys


def keys_of(spec: StoreSpec, column: Callable[[str], pa.Array | None]) -> pa.Array:
    """Return the serialised keys of records, as they are in the changelog of the store.

    In a window or session store, each key ends with the bytes of its times. The function ``column``
    takes a name, and returns the records' column of this name, or None if the records lack the
    column. The columns must not contain nulls. Raises SpecError if times are invalid, or if keys
    are too short to contain times.
    """
    keys = column("key")
    assert keys is not None
    starts = column(times_of_shape(spec)[0]) if times_of_shape(spec) else None
    if starts is None:
        if spec.shape not in TIME_BYTES:
            return serialized(spec.key, keys)
        return _checked(spec, keys.cast(pa.binary()))
    start = _whole(starts, f"{spec.shape}_start")
    if spec.shape == "session":
        end = _whole(column("session_end"), "session_end")
        _refuse(end < start, "session_end", end, "is before the start of its session")
        tail = [end.astype(">i8"), start.astype(">i8")]
    else:
        ends, sequence = column("window_end"), column("sequence")
        if ends is not None:
            _check_ends(spec, start, _whole(ends, "window_end"))
        numbers = np.zeros(len(start), np.int64) if sequence is None else integers(sequence)
        outside = (numbers < 0) | (numbers > _MAX_SEQUENCE)
        _refuse(outside, "sequence", numbers, f"is not from 0 to {_MAX_SEQUENCE}")
        tail = [start.astype(">i8"), numbers.astype(">i4")]
    rows = np.concatenate([column[:, None].view(np.uint8) for column in tail], axis=1)
    tails = sliced(rows.tobytes(), rows.shape[1])
    return pc.binary_join_element_wise(serialized(spec.key, keys), tails, b"")


def _checked(spec: StoreSpec, keys: pa.Array) -> pa.Array:
    """Check the times at the end of each key of a changelog, and return the keys unchanged."""
    width = TIME_BYTES[spec.shape]
    if not len(keys):
        return keys
    lengths = pc.binary_length(keys)
    if pc.min(lengths).as_py() < width:
        short = int(np.argmin(lengths.to_numpy(zero_copy_only=False)))
        raise SpecError(
            f"the key {keys[short].as_py()!r} is too short for the {spec.shape} store "
            f"{spec.name!r}, whose keys end in {width} bytes of times; pass the changelog of this "
            f"store, or pass the times in the columns {' and '.join(times_of_shape(spec))}"
        )
    tails = pc.binary_slice(keys, -width).cast(pa.binary(width))
    second = ">i8" if spec.shape == "session" else ">i4"
    times = np.frombuffer(
        tails.buffers()[1], [("first", ">i8"), ("second", second)], count=len(tails)
    )
    wrong = (times["first"] < 0) | (times["second"] < 0)
    if spec.shape == "session":
        wrong |= times["first"] < times["second"]
    places = np.flatnonzero(wrong)
    if len(places):
        raise SpecError(
            f"{len(places)} of {len(keys)} keys do not end in the times of a {spec.shape}; the "
            f"first of these keys ends in {keys[int(places[0])].as_py()[-40:]!r}. Pass the "
            "changelog of this store, or pass the times in the columns "
            f"{' and '.join(times_of_shape(spec))}"
        )
    return keys


def _whole(column: pa.Array | None, name: str) -> npt.NDArray[np.int64]:
    """Convert a column of timestamps or of times in ms to an array of times in ms.

    Raises SpecError if a time is negative or is not a whole number of ms.
    """
    assert column is not None
    times, rounded_up = millis(column)
    _refuse(times != rounded_up, name, times, "is not a whole number of milliseconds")
    _refuse(times < 0, name, times, "is before 1970")
    return times


def _check_ends(spec: StoreSpec, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> None:
    size = spec.window_size_ms
    assert size is not None
    wanted = np.where(start <= MAX_TIME - size, start + np.int64(size), MAX_TIME)
    why = f"is not window_start + {size}, the window size of the store {spec.name!r}"
    _refuse(end != wanted, "window_end", end, why)


def _refuse(
    wrong: npt.NDArray[np.bool_], name: str, values: npt.NDArray[np.int64], why: str
) -> None:
    places = np.flatnonzero(wrong)
    if len(places):
        raise SpecError(
            f"{len(places)} of {len(values)} records have a {name} that {why}, such as "
            f"{values[places[0]]}; correct these records or filter them out. Nothing was written"
        )
