"""The manifest: the JSON document that describes one version of a partitioned store.

A manifest is written after all shards of its version, and never changes. docs/spark-roots.md
describes the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from kstore_core.errors import InconsistentStateError, SpecError
from kstore_core.spark.root.checks import check_manifest
from kstore_core.spark.root.offsets import Ahead, Offset
from kstore_core.spec import StoredSpec, StoreSpec

__all__ = ["MANIFEST_FORMAT", "File", "Manifest", "Offset", "Shard", "manifest_spec"]

MANIFEST_FORMAT = 3
"""The newest layout of a manifest that this kstore reads and writes.

A manifest of layout 2 may name files that earlier jobs uploaded. A manifest of layout 3 may also
describe a rescaled store.
"""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a shard.

    Attributes
    ----------
    path : str
        The path relative to the shard's directory, with forward slashes.
    bytes : int
        The size of the file.
    sha256 : str
        The SHA-256 of the content in hexadecimal.
    at : str, optional
        The path relative to the root if the file is in the directory of an earlier upload, or None
        if the file is in the shard's directory.
    """

    path: str
    bytes: int
    sha256: str
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """One partition of a store in one version of the store.

    A key is in the shard with the number ``(murmur2(key) & 0x7fffffff) % partitions``. The counts
    ``records``, ``late`` and ``replayed`` are those of the job that wrote the shard last.

    Attributes
    ----------
    shard : int
        The number of the shard, from 0 on.
    path : str, optional
        The shard's directory relative to the root, or None if nothing was written to the shard.
    files : tuple of File
        The files of the shard.
    rows : int
        The number of rows that all jobs wrote. A row that an append replaced is counted again.
    records : int
        The number of records that the job read for the shard, including late and replayed ones.
    late : int
        The number of records that the job dropped because they had expired.
    replayed : int
        The number of records that the job skipped because the shard contained their offsets.
    stream_time : int
        The stream time in ms, which is the greatest record time or a greater partition time; -1 if
        the shard has no records. A rescale sets the stream time to the least stream time of the old
        shards from which the shard has keys, or in a key-value store to the greatest.
    offsets : tuple of Offset
        The last offset of each source partition.
    ahead : tuple of Ahead
        Offsets greater than ``offsets``, which after a rescale apply only to some keys of the
        shard.
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
    ahead: tuple[Ahead, ...] = ()

    @property
    def bytes(self) -> int:
        """The total size of the shard's files in bytes."""
        return sum(file.bytes for file in self.files)

    @property
    def in_one_place(self) -> bool:
        """True if all files of the shard are in the directory ``path``."""
        return all(file.at is None for file in self.files)

    def place_of(self, file: File) -> str:
        """Return the path of a file of this shard, relative to the root."""
        return file.at or f"{self.path}/{file.path}"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the shard that a part of a manifest describes; skip unknown fields."""
        known = _known(cls, document)
        known["files"] = tuple(File(**_known(File, file)) for file in document["files"])
        known["offsets"] = tuple(Offset(**_known(Offset, o)) for o in document["offsets"])
        known["ahead"] = tuple(Ahead(**_known(Ahead, a)) for a in document.get("ahead", ()))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of one version of a partitioned store.

    Attributes
    ----------
    version : int
        The number of the version. Versions have consecutive numbers from 1 on.
    created_ms : int
        The time of publication in ms since the epoch, by the writer's clock.
    job : str
        The name of the job that wrote the version. Its uploads are below ``attempts/<job>``.
    mode : str
        ``"append"`` if the version continues the previous version, ``"overwrite"`` if it begins
        with an empty store, or ``"rescale"`` if it has the rows of the previous version in another
        number of shards.
    engine : str
        The name of the storage engine of the shards.
    partitions : int
        The number of shards.
    spec : mapping
        The stored spec of the store, as a state directory contains it.
    shards : tuple of Shard
        All shards in the order of their numbers.
    written_by : str
        The name and version of the program that wrote the manifest.
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
        """The layout of the JSON document, which is from 1 to 3."""
        if self.mode == "rescale" or any(shard.ahead for shard in self.shards):
            return 3
        return 1 if all(shard.in_one_place for shard in self.shards) else 2

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import manifest_html

        return manifest_html(self)

    @property
    def records(self) -> int:
        """The number of records that the last job of each shard read."""
        return sum(shard.records for shard in self.shards)

    @property
    def late(self) -> int:
        """The sum over the shards of the late records that the last job of the shard dropped."""
        return sum(shard.late for shard in self.shards)

    @property
    def bytes(self) -> int:
        """The total size of all shards in bytes."""
        return sum(shard.bytes for shard in self.shards)

    def places(self) -> Iterator[str]:
        """Yield the path of every file, relative to the root."""
        for shard in self.shards:
            yield from map(shard.place_of, shard.files)

    def to_json(self) -> str:
        """Return the manifest as an indented JSON document."""
        document = {**asdict(self), "format": self.format}
        for shard in document["shards"]:
            shard["files"] = [_without_none(file) for file in shard["files"]]
            if not shard["ahead"]:
                del shard["ahead"]
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str, version: int | None = None) -> Self:
        """Return the manifest that the JSON document ``text`` describes.

        ``where`` is the name of the document in messages. If ``version`` is given, the document
        must have this version. Raise an InconsistentStateError, which names the wrong field, if the
        document is not a manifest. Raise a StateError if the layout of the manifest is newer than
        this kstore.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InconsistentStateError(
                f"{where} is not a valid manifest: it is not JSON ({error}). To read another "
                "version, pass version="
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


def manifest_spec(manifest: Manifest, given: StoreSpec | None, where: str) -> StoreSpec:
    """Return the spec of the store that a manifest describes.

    If ``given`` is not None, check that ``given`` describes the same store, and return ``given``.
    Raise a SpecError if ``given`` describes another store, or if ``given`` is None and a serde is
    not built in.
    """
    stored = StoredSpec.parse(json.dumps(dict(manifest.spec)).encode())
    if given is None:
        try:
            return stored.spec()
        except SpecError as error:
            raise SpecError(f"{where}: {error}. Pass the spec of the store as spec=") from None
    if given.name != stored.name:
        raise SpecError(f"{where} has the store {stored.name!r}, not {given.name!r}")
    stored.check(given, where)
    return given
