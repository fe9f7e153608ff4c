"""What a version of a partitioned store consists of: one JSON document a version.

The document is written once, after every shard is whole, and never changed. docs/spark.md describes
its fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from kstore_core.errors import StateError

__all__ = ["MANIFEST_FORMAT", "File", "Manifest", "Offset", "Shard"]

MANIFEST_FORMAT = 1
"""Number of this document's layout. A reader refuses a greater one."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a shard.

    Attributes
    ----------
    path : str
        Relative to the shard's directory, with forward slashes.
    bytes : int
        Its size.
    sha256 : str
        Hash of its content, hexadecimal.
    """

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Offset:
    """The last record of a source partition whose effects a shard contains."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One partition of the store.

    Attributes
    ----------
    shard : int
        Its number; a key is in shard ``murmur2(key) & 0x7fffffff % partitions``.
    path : str or None
        Its task directory, relative to the root; None while nothing was written to it.
    files : tuple of File
        Every file below ``path``.
    rows : int
        Physical rows in the store.
    records : int
        Records restored by the job that wrote ``path``.
    late : int
        Of these, records that were too late for the store's history, and left out.
    replayed : int
        Of these, records that the shard contained already, by their offsets, and left out.
    stream_time : int
        The greatest record time, ms; -1 where there is none.
    offsets : tuple of Offset
        What the shard contains of its sources.
    """

    shard: int
    path: str | None = None
    files: tuple[File, ...] = ()
    rows: int = 0
    records: int = 0
    late: int = 0
    replayed: int = 0
    stream_time: int = -1
    offsets: tuple[Offset, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The shard that :func:`dataclasses.asdict` wrote."""
        known = {name: document[name] for name in (f.name for f in fields(cls))}
        known["files"] = tuple(File(**file) for file in document["files"])
        known["offsets"] = tuple(Offset(**offset) for offset in document["offsets"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version of a partitioned store.

    Attributes
    ----------
    version : int
        1 for the first, then one more each.
    created_ms : int
        When it was published, ms since the epoch, by the writer's clock.
    job : str
        The writing job; its shards stand below ``attempts/<job>``.
    mode : str
        ``"append"`` or ``"overwrite"``: whether it goes on from the version before.
    engine : str
        The engine that the shards were written with.
    partitions : int
        The number of shards.
    spec : mapping
        The store's description, as its directories keep it.
    shards : tuple of Shard
        All of them, in the order of their numbers.
    written_by : str
        The writing program and its version.
    """

    version: int
    created_ms: int
    job: str
    mode: str
    engine: str
    partitions: int
    spec: Mapping[str, Any]
    shards: tuple[Shard, ...]
    written_by: str = ""
    format: int = field(default=MANIFEST_FORMAT, kw_only=True)

    def _repr_html_(self) -> str:
        from kstore_core.shown import manifest_html

        return manifest_html(self)

    @property
    def records(self) -> int:
        """Records that the shards' last jobs restored."""
        return sum(shard.records for shard in self.shards)

    @property
    def late(self) -> int:
        """Records that were left out because they were too late."""
        return sum(shard.late for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Size of all shards."""
        return sum(shard.bytes for shard in self.shards)

    def to_json(self) -> str:
        """The document, indented, keys in order of declaration."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read a document.

        Raises
        ------
        StateError
            It is not a manifest, or one of a newer layout. ``where`` names it in the text.
        """
        try:
            document = json.loads(text)
            number = document["format"]
            if number > MANIFEST_FORMAT:
                raise StateError(
                    f"{where} is a manifest of layout {number}; this kstore reads up to "
                    f"{MANIFEST_FORMAT}. Upgrade kstore"
                )
            known = {name: document[name] for name in (f.name for f in fields(cls))}
            known["shards"] = tuple(Shard.from_dict(shard) for shard in document["shards"])
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{where} is not a manifest ({type(error).__name__}: {error}); "
                "another version can be read with version="
            ) from error
