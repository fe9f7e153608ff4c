"""The state directory, which contains the stores of one task and commits them together."""

from kstore_core.state.directory import StateDirectory
from kstore_core.state.opening import (
    DEFAULT_CACHE_MAX_BYTES,
    DEFAULT_UNCOMMITTED_MAX_BYTES,
    open_state,
)

__all__ = [
    "DEFAULT_CACHE_MAX_BYTES",
    "DEFAULT_UNCOMMITTED_MAX_BYTES",
    "StateDirectory",
    "open_state",
]
