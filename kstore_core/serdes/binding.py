"""Functions that bind serdes to the topic of their records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.serdes.serde import Serde

__all__ = ["bound", "bound_spec"]


def bound(serde: Serde[Any], topic: str, *, is_key: bool) -> Serde[Any]:
    """Return the serde for the keys or the values of a topic.

    If the serde has the method ``bind``, the function returns the result of
    ``serde.bind(topic, is_key)``. If the serde has no such method, the function returns the serde
    itself.
    """
    bind = getattr(serde, "bind", None)
    return serde if bind is None else bind(topic, is_key)


def bound_spec(spec: Any, topic: str) -> Any:
    """Return the spec of a store with both serdes bound to the topic of its changelog.

    Raises
    ------
    SpecError
        A serde writes the ID of its schema to a header, but the store has no headers.
    """
    for part in ("key", "value"):
        if getattr(getattr(spec, part), "needs_headers", False) and not spec.format.headers:
            raise SpecError(
                f"the {part} serde of the store {spec.name!r} writes its schema's ID to a header, "
                "but the store has no headers; use ids='prefix', or a store with headers"
            )
    key, value = bound(spec.key, topic, is_key=True), bound(spec.value, topic, is_key=False)
    return spec if key is spec.key and value is spec.value else replace(spec, key=key, value=value)
