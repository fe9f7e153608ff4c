"""A store's description as JSON types, which a state directory keeps."""

from __future__ import annotations

from typing import Any, Literal

__all__ = ["FLAGS", "SPEC_VERSION", "TIMES", "Shape", "described", "family"]

SPEC_VERSION = 2
"""Of the JSON under ``kstore.spec``. A directory with a higher one is refused.

Version 2 has time-ordered stores; all others are described in version 1.
"""

Shape = Literal["key_value", "versioned", "window", "session"]

TIMES = ("history_retention_ms", "retention_ms", "window_size_ms", "segment_interval_ms")
"""The times, of which a shape has some."""

FLAGS = ("retain_duplicates", "time_ordered", "indexed")
"""The flags, described only where they are True."""


def described(spec: Any, key: str, value: str) -> dict[str, Any]:
    """The JSON of a StoreSpec or StoredSpec whose serdes have these names."""
    fields: dict[str, Any] = {
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
            fields[name] = millis
    return fields | {name: True for name in FLAGS if getattr(spec, name)}


def family(spec: Any) -> str:
    """The shape, with ``"time_ordered_"`` before it where the store is."""
    return f"time_ordered_{spec.shape}" if spec.time_ordered else spec.shape
