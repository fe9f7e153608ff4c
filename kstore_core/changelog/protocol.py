"""The interface that writers and restores need from a changelog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, cast

from kstore_core.codec import RecordColumns
from kstore_core.errors import SpecError
from kstore_core.offsets.checks import check_partition

if TYPE_CHECKING:
    from kstore_core.codec.headers.headers import _HeadersLike

__all__ = ["Changelog", "check_changelog"]


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
        """The lowest offset that may have a record; records at lower offsets have expired."""

    @property
    def high_watermark(self) -> int:
        """The offset that follows the last record that a reader gets."""

    def append(
        self, key: bytes, value: bytes | None, timestamp: int, headers: _HeadersLike = None
    ) -> None:
        """Add a record. The next commit sends the record, if it was not sent before.

        Parameters
        ----------
        key : bytes
        value : bytes or None
            None makes the record a tombstone.
        timestamp : int
            The record's time in milliseconds since the epoch; -1 if unknown.
        headers : Headers, iterable of (str, bytes-like or None), or None, optional
        """

    def extend(self, records: RecordColumns) -> None:
        """Add many records. The log gives new offsets to the records."""

    def commit(self) -> int:
        """Send the added records, and return the high watermark once the log has the records.

        If the commit fails, the log keeps the records, and a later commit sends them.
        """

    def discard(self) -> None:
        """Discard the records that were added but not sent."""

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """Return the records from an offset (inclusive) up to the high watermark (exclusive).

        The high watermark is read at this call.

        Parameters
        ----------
        from_offset : int, optional
            The first offset to read. The read begins at the start offset if this is None or lower
            than the start offset.

        Yields
        ------
        RecordColumns
            Columns with at least one record. Compaction and transactions may leave gaps between
            the offsets.
        """

    def close(self) -> None:
        """Close the log without sending uncommitted records. A second close does nothing."""


def check_changelog(given: object) -> None:
    """Raise an error unless an object is a changelog of one partition.

    Raises
    ------
    TypeError
        The object is not a changelog.
    SpecError
        The partition is not from 0 to 2147483647, or the name of the topic is not valid.
    """
    if not all(hasattr(given, name) for name in ("topic", "partition", "read")):
        what = (
            f"{given!r}" if isinstance(given, (str, os.PathLike)) else f"a {type(given).__name__}"
        )
        hint = (
            "To get the changelog of one store, call changelog_of(spec, path) of this object"
            if hasattr(given, "changelog_of")
            else "Open a log in files with FileChangelog(root, topic, partition, read_only=True), "
            "or a log in Kafka with KafkaChangelog(servers, topic, partition, read_only=True). "
            "Both classes are in kstore_core.changelog. Records in memory need no changelog: put "
            "them into the store"
        )
        raise TypeError(
            f"a changelog must be an object with topic, partition and read(), not {what}. {hint}"
        )
    log = cast("Changelog", given)
    try:
        check_partition(log.topic, log.partition)
    except ValueError as error:
        raise SpecError(
            f"the changelog {log.topic!r}, partition {log.partition}, has a bad topic or "
            f"partition: {error}. Open the changelog with the name of its topic and a partition "
            "of 0 or above"
        ) from error
