"""A store's description as JSON types, which a state directory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kstore_core.spec.store_spec import StoreSpec
    from kstore_core.spec.stored_spec import StoredSpec

__all__ = ["SAID", "SPEC_VERSION", "TIMES", "Shape", "described", "family"]

SPEC_VERSION = 2
"""Of the JSON under ``kstore.spec``. A directory with a higher one is refused.

Version 2 has time-ordered stores; whatever is none is described in version 1, as before.
"""

Shape = Literal["key_value", "versioned", "window", "session"]

TIMES = ("history_retention_ms", "retention_ms", "window_size_ms", "segment_interval_ms")
"""What is described where the shape has it."""

SAID = ("retain_duplicates", "time_ordered", "indexed")
"""What is described only where it is so."""


def described(spec: StoreSpec | StoredSpec, key: str, value: str) -> dict[str, Any]:
    """What is kept of a spec, whose serdes have these names."""
    said: dict[str, Any] = {
        "version": SPEC_VERSION if spec.time_ordered else 1,
        "name": spec.name,
        "shape": spec.shape,
        "format": spec.format.name,
        "key": key,
        "value": value,
    }
    for name in TIMES:
        millis = getattr(spec, name)
        if millis is not None:
            said[name] = millis
    return said | {name: True for name in SAID if getattr(spec, name)}


def family(spec: StoreSpec | StoredSpec) -> str:
    """The shape, with ``"time_ordered_"`` before it where the store is."""
    return f"time_ordered_{spec.shape}" if spec.time_ordered else spec.shape
