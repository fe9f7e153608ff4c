"""What a changelog is to those that write a store's changes to it and restore the store from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kstore_core.codec import RecordColumns

if TYPE_CHECKING:
    from kstore_core.codec.headers import _HeadersLike

__all__ = ["Changelog"]


class Changelog(Protocol):
    """One partition of a changelog topic.

    Attributes
    ----------
    topic : str
    partition : int
    """

    topic: str
    partition: int

    @property
    def start_offset(self) -> int:
        """The first offset that may be there; what was before it has expired."""

    @property
    def high_watermark(self) -> int:
        """The offset behind the last record that a reader gets."""

    def append(
        self, key: bytes, value: bytes | None, timestamp: int, headers: _HeadersLike = None
    ) -> None:
        """Add a record, to be sent with the next commit at the latest.

        Parameters
        ----------
        key : bytes
        value : bytes or None
            None is a tombstone.
        timestamp : int
            Milliseconds since the epoch; -1 when unknown.
        headers : Headers, iterable of (str, bytes-like or None), or None, optional
        """

    def extend(self, records: RecordColumns) -> None:
        """Add many records; they get the log's offsets in place of their own."""

    def commit(self) -> int:
        """Send what was added; returns the high watermark once the log has it.

        Where it fails, what was added stays, and a later commit sends it.
        """

    def discard(self) -> None:
        """Forget what was added and is not sent."""

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """The records from an offset (inclusive) up to the high watermark as of this call."""

    def close(self) -> None:
        """Let go of the log; what is not committed is not sent. Closing twice is fine."""
