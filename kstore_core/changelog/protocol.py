"""The protocol of changelogs, for writers and for restores."""

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
        """The first offset that may exist; earlier records have expired."""

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that a reader gets."""

    def append(
        self, key: bytes, value: bytes | None, timestamp: int, headers: _HeadersLike = None
    ) -> None:
        """Add a record; it is sent with the next commit at the latest.

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
        """Add many records; their offsets are replaced by the log's."""

    def commit(self) -> int:
        """Send the added records; returns the high watermark once the log has them.

        After a failure the records stay, and a later commit sends them.
        """

    def discard(self) -> None:
        """Discard the records that were added and not sent."""

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """The records from an offset (inclusive) up to the high watermark as of this call."""

    def close(self) -> None:
        """Close the log without sending uncommitted records. A second close does nothing."""


def check_changelog(given: object) -> None:
    """Refuse to restore from an object that is no changelog of one partition.

    Raises
    ------
    TypeError
        The object is no changelog; the text says how to make one.
    SpecError
        The partition is negative, or the topic has no name.
    """
    if not all(hasattr(given, name) for name in ("topic", "partition", "read")):
        what = (
            f"{given!r}" if isinstance(given, (str, os.PathLike)) else f"a {type(given).__name__}"
        )
        hint = (
            "call its changelog_of(spec, path) for the changelog of one store"
            if hasattr(given, "changelog_of")
            else "open a log in files with FileChangelog(root, topic, partition, read_only=True), "
            "one in Kafka with KafkaChangelog(servers, topic, partition, read_only=True), both of "
            "kstore_core.changelog; put records that are in memory into the store yourself"
        )
        raise TypeError(
            f"a changelog is one partition of a topic, with topic, partition and read(), not "
            f"{what}: {hint}"
        )
    log = cast("Changelog", given)
    try:
        check_partition(log.topic, log.partition)
    except ValueError as error:
        raise SpecError(
            f"the changelog {log.topic!r}, partition {log.partition}, has a bad topic or "
            f"partition: {error}. Open it with the topic's name and a partition of 0 or above"
        ) from error
