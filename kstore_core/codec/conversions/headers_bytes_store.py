"""The class `HeadersBytesStore`, with the static method that KIP-1271 defines for upgrades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kstore_core.codec.conversions.values import convert_to_header_format

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["HeadersBytesStore"]


class HeadersBytesStore(Protocol):
    """The counterpart of Kafka Streams' interface ``HeadersBytesStore`` (KIP-1271).

    In Kafka Streams, a store class implements the interface if its values begin with headers. In
    kstore, ``spec.format.headers`` is True for such a store. So this class has only the static
    method of the interface.
    """

    @staticmethod
    def convert_to_header_format(value: Buffer | None) -> bytes | None:
        """Return the result of :func:`kstore_core.codec.convert_to_header_format`."""
        return convert_to_header_format(value)
