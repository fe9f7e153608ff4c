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
        """Close the log; uncommitted records are not sent. Closing twice is fine."""


def check_changelog(given: object) -> None:
    """Refuse to restore from what is no changelog of one partition.

    Raises
    ------
    TypeError
        It is none; says what is one.
    SpecError
        Its partition is negative, or its topic has no name.
    """
    if not all(hasattr(given, name) for name in ("topic", "partition", "read")):
        what = (
            f"{given!r}" if isinstance(given, (str, os.PathLike)) else f"a {type(given).__name__}"
        )
        hint = (
            "changelog_of(spec, path) gives that of one store"
            if hasattr(given, "changelog_of")
            else "open a log in files with FileChangelog(root, topic, partition, read_only=True), "
            "one in Kafka with KafkaChangelog(servers, topic, partition, read_only=True), both of "
            "kstore_core.changelog; records that are at hand are put into the store"
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
            f"the changelog {log.topic!r}, partition {log.partition}, is none of a topic: {error}. "
            "Open it with the topic's name and a partition of 0 or above"
        ) from error
