"""The expiry of rows of window and session stores."""

from __future__ import annotations

from kstore_core.keys import rows_of
from kstore_core.spec import StoreSpec

__all__ = ["earliest_row"]


def earliest_row(spec: StoreSpec, stream_time: int | None) -> int:
    """Return the time in ms of the oldest row that a read of a window or session store returns.

    ``stream_time`` is that of the store in ms, or None if the store has none.
    """
    assert spec.retention_ms is not None
    if stream_time is None:
        return 0
    horizon = stream_time - spec.retention_ms
    hidden = rows_of(spec.shape, time_ordered=spec.time_ordered).hidden
    return 0 if horizon < 0 else horizon + hidden
