"""The description of a store in JSON types, for storage in a state directory."""

from __future__ import annotations

from typing import Any, Literal

__all__ = ["FLAGS", "SPEC_VERSION", "TIMES", "Shape", "described", "family"]

SPEC_VERSION = 2
"""The highest version of the JSON under ``kstore.spec`` that this kstore can read.

Version 2 describes time-ordered stores, and version 1 describes all other stores.
"""

Shape = Literal["key_value", "versioned", "window", "session"]

TIMES = ("history_retention_ms", "retention_ms", "window_size_ms", "segment_interval_ms")
"""The names of the fields that are times in ms. Each shape has some of these fields."""

FLAGS = ("retain_duplicates", "time_ordered", "indexed")
"""The names of the flags. The stored description contains only the flags that are True."""


def described(spec: Any, key: str, value: str) -> dict[str, Any]:
    """Return the description of a spec as a dict that can be written as JSON.

    Parameters
    ----------
    spec : StoreSpec or StoredSpec
        The spec.
    key, value : str
        The names of the key serde and of the value serde.
    """
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
    """Return the shape of a store, with the prefix ``"time_ordered_"`` if it is time-ordered."""
    return f"time_ordered_{spec.shape}" if spec.time_ordered else spec.shape
