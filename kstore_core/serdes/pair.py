"""A pair of serdes, with the methods of KIP-1271."""

from __future__ import annotations

import warnings
from typing import Generic, TypeVar

from kstore_core.codec import Headers
from kstore_core.serdes.serde import Serde

__all__ = ["StateSerdes"]

K = TypeVar("K")
V = TypeVar("V")


class StateSerdes(Generic[K, V]):
    """A pair of a key serde and a value serde, with the methods of KIP-1271.

    Parameters
    ----------
    key, value : Serde
        The serde of the keys and the serde of the values.
    """

    def __init__(self, key: Serde[K], value: Serde[V]) -> None:
        self.key = key
        self.value = value

    def raw_key(self, key: K, headers: Headers | None = None) -> bytes | None:
        """Return the bytes of a key. A call without ``headers`` is deprecated."""
        return self.key.serialize(key, _given(headers, "raw_key"))

    def raw_value(self, value: V, headers: Headers | None = None) -> bytes | None:
        """Return the bytes of a value. A call without ``headers`` is deprecated."""
        return self.value.serialize(value, _given(headers, "raw_value"))

    def key_from(self, data: bytes, headers: Headers | None = None) -> K | None:
        """Return the key that ``data`` contains. A call without ``headers`` is deprecated."""
        return self.key.deserialize(data, _given(headers, "key_from"))

    def value_from(self, data: bytes, headers: Headers | None = None) -> V | None:
        """Return the value that ``data`` contains. A call without ``headers`` is deprecated."""
        return self.value.deserialize(data, _given(headers, "value_from"))


def _given(headers: Headers | None, method: str) -> Headers:
    if headers is None:
        warnings.warn(
            f"StateSerdes.{method} without headers is deprecated (KIP-1271); pass the record's "
            "headers",
            DeprecationWarning,
            stacklevel=3,
        )
        return Headers()
    return headers
