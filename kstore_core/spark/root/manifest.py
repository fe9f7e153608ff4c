"""The manifest of a version of a partitioned store: one JSON document.

It is written after all shards, and never changes. docs/spark-roots.md describes its fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from kstore_core.errors import InconsistentStateError
from kstore_core.spark.root.checks import check_manifest

__all__ = ["MANIFEST_FORMAT", "File", "Manifest", "Offset", "Shard"]

MANIFEST_FORMAT = 2
"""The newest layout; a reader refuses a greater one. Layout 2 has files of earlier attempts."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a shard."""

    path: str  # relative to the shard's directory, with forward slashes
    bytes: int
    sha256: str  # hexadecimal
    at: str | None = None
    """Its path, relative to the root, if an earlier attempt uploaded it."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The last record of a source partition that a shard contains."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One partition of the store; a key is in shard ``murmur2(key) & 0x7fffffff % partitions``.

    ``records``, ``late`` and ``replayed`` count the records of the job that wrote ``path``.
    """

    shard: int
    path: str | None = None  # its task directory in the root; None before the first write
    files: tuple[File, ...] = ()
    rows: int = 0  # physical ones, of all jobs
    records: int = 0
    late: int = 0  # dropped because they expired before their write
    replayed: int = 0  # dropped because the shard contained them, by their offsets
    stream_time: int = -1  # the greatest record time, ms; -1 for none
    offsets: tuple[Offset, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def in_one_place(self) -> bool:
        """True if all files are below ``path``."""
        return all(file.at is None for file in self.files)

    def place_of(self, file: File) -> str:
        """Return the path of one of its files, relative to the root."""
        return file.at or f"{self.path}/{file.path}"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read the output of :func:`dataclasses.asdict`; unknown fields are skipped."""
        known = _known(cls, document)
        known["files"] = tuple(File(**_known(File, file)) for file in document["files"])
        known["offsets"] = tuple(Offset(**_known(Offset, o)) for o in document["offsets"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version of a partitioned store.

    Attributes
    ----------
    version : int
        1 for the first version, then consecutive numbers.
    created_ms : int
        The time of publication, ms since the epoch, by the writer's clock.
    job : str
        The writing job; its shards are below ``attempts/<job>``.
    mode : str
        ``"append"``, which continues the version before, or ``"overwrite"``.
    engine : str
        The storage engine of the shards.
    partitions : int
        The number of shards.
    spec : mapping
        The store's description, as in its directories.
    shards : tuple of Shard
        All shards, in the order of their numbers.
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

    @property
    def format(self) -> int:
        """The layout of its document."""
        return 1 if all(shard.in_one_place for shard in self.shards) else 2

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import manifest_html

        return manifest_html(self)

    @property
    def records(self) -> int:
        """The number of records that the shards' last jobs restored."""
        return sum(shard.records for shard in self.shards)

    @property
    def late(self) -> int:
        """The number of late records, which were dropped."""
        return sum(shard.late for shard in self.shards)

    @property
    def bytes(self) -> int:
        """The size of all shards."""
        return sum(shard.bytes for shard in self.shards)

    def places(self) -> Iterator[str]:
        """Yield the path of every file, relative to the root."""
        for shard in self.shards:
            yield from map(shard.place_of, shard.files)

    def to_json(self) -> str:
        """Return the document, indented, with keys in the order of declaration."""
        document = {**asdict(self), "format": self.format}
        for shard in document["shards"]:
            shard["files"] = [_without_none(file) for file in shard["files"]]
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str, version: int | None = None) -> Self:
        """Read the document of ``version``, if given; ``where`` is its name in messages.

        An InconsistentStateError, which names the field, if it is not a manifest; a StateError if
        its layout is newer.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InconsistentStateError(
                f"{where} is not a manifest (it is not JSON: {error}); read another version with "
                "version="
            ) from error
        check_manifest(document, where, newest_layout=MANIFEST_FORMAT, version=version)
        known = _known(cls, document)
        known["shards"] = tuple(Shard.from_dict(shard) for shard in document["shards"])
        return cls(**known)


def _known(cls: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    names = (field.name for field in fields(cls))
    return {name: document[name] for name in names if name in document}


def _without_none(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}
