"""The stream time of a rescaled store, and the expiry of rows of window and session stores."""

from __future__ import annotations

from collections.abc import Sequence

from kstore_core.keys import rows_of
from kstore_core.spec import StoreSpec

__all__ = ["earliest_row", "merged_stream_time", "reached_stream_time"]


def earliest_row(spec: StoreSpec, stream_time: int | None) -> int:
    """Return the least time in ms of the rows that a window or session store can return.

    ``stream_time`` is the store's stream time in ms, or None if the store has no stream time.
    """
    assert spec.retention_ms is not None
    if stream_time is None:
        return 0
    horizon = stream_time - spec.retention_ms
    hidden = rows_of(spec.shape, time_ordered=spec.time_ordered).hidden
    return 0 if horizon < 0 else horizon + hidden


def merged_stream_time(shape: str, times: Sequence[int | None]) -> int | None:
    """Return the stream time of a new store. The old stores have the stream times ``times``.

    The result is None if a stream time is unknown (None), or if ``times`` is empty.

    For key-value stores, in which no row expires, the result is the greatest stream time. For other
    stores, it is the least stream time, because the stream time determines which rows have expired.
    """
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return None
    return max(known, default=None) if shape == "key_value" else min(known, default=None)


def reached_stream_time(
    spec: StoreSpec, stream_time: int, earliest: int | None, latest: int
) -> tuple[int, bool]:
    """Return the stream time of a new store that has a database for each segment.

    Such a store is never opened with a stream time before its newest segment. The second result is
    True if rows that could be read before the rescale would expire at this stream time.

    Parameters
    ----------
    spec : StoreSpec
        The spec of a window or session store.
    stream_time : int
        The merged stream time of the old stores in ms.
    earliest : int or None
        The least time in ms of a row, or None if there are no rows.
    latest : int
        A time in ms in the newest segment that has rows.
    """
    if earliest is None:
        return stream_time, False
    assert spec.segment_interval_ms is not None
    reached = max(stream_time, latest // spec.segment_interval_ms * spec.segment_interval_ms)
    return reached, earliest < earliest_row(spec, reached)
