"""The helper of KIP-1271's upgrade, under the KIP's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kstore_core.codec.conversions.values import convert_to_header_format

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["HeadersBytesStore"]


class HeadersBytesStore(Protocol):
    """A store of bytes whose values begin with headers (KIP-1271).

    A store class of Kafka Streams implements this interface; a store of kstore has the format
    property ``spec.format.headers`` instead. Only the static method is needed here.
    """

    @staticmethod
    def convert_to_header_format(value: Buffer | None) -> bytes | None:
        """Call :func:`kstore_core.codec.convert_to_header_format`."""
        return convert_to_header_format(value)
