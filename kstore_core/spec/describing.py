"""A store's description as JSON types, which a state directory keeps."""

from __future__ import annotations

from typing import Any, Literal

__all__ = ["FLAGS", "SPEC_VERSION", "TIMES", "Shape", "described", "family"]

SPEC_VERSION = 2
"""The version of the JSON under ``kstore.spec``. A store with a higher version is not opened.

Version 2 describes time-ordered stores, version 1 all others.
"""

Shape = Literal["key_value", "versioned", "window", "session"]

TIMES = ("history_retention_ms", "retention_ms", "window_size_ms", "segment_interval_ms")
"""The times; each shape has some of them."""

FLAGS = ("retain_duplicates", "time_ordered", "indexed")
"""The flags; the description has those that are True."""


def described(spec: Any, key: str, value: str) -> dict[str, Any]:
    """Return the JSON of a StoreSpec or StoredSpec whose serdes have these names."""
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
    """Return the shape, prefixed by ``"time_ordered_"`` if the store is time-ordered."""
    return f"time_ordered_{spec.shape}" if spec.time_ordered else spec.shape
