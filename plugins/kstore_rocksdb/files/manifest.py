"""Read a manifest, and detect one that has lost its end.

A truncated manifest looks like a valid older one. RocksDB accepts it without an error: it loses the
files and column families that were added later, restores those that were dropped later, and removes
files. But other files still show what the manifest has lost:

* The options file, which is written after each change of the column families, names them.
* A flush writes the rows of a write-ahead log to table files, and the log stays until the manifest
  has them. So for table files that are not in the manifest, either the log exists and the flush was
  interrupted, or the log is gone and the manifest has lost the flush.

All files of a database get their numbers from one counter, and each change of the families records
the counter in the manifest. So the numbers show if an options file is older than a change. They
also show if a table file was begun before a family was dropped, and so may belong to that family.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kstore_core.errors import CorruptionError
from kstore_rocksdb.errors import inspect_command
from kstore_rocksdb.files.edits import Blob, Edit, Table, UnknownEditError, read_edits
from kstore_rocksdb.files.readonly import current_manifest

__all__ = ["Family", "Manifest", "check_manifest", "file_faults", "read_manifest"]

_ATTEMPTS = 5
_OPTIONS = re.compile(r"OPTIONS-\d+")
_FAMILY = re.compile(r'^\[CFOptions "(.*)"\]$', re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
_DEFAULT = 0
"""The id of the family that every database has."""


@dataclass(slots=True)
class Family:
    """A column family that exists.

    Attributes
    ----------
    name : str
    since : int
        The number of the first options file that lists the family. A file with a smaller number is
        older than the family.
    tables : dict of int to Table
        The table files in use.
    blobs : dict of int to Blob
        All blob files that were ever added.
    garbage : dict of int to int
        The number of unused values of each blob file.
    """

    name: str
    since: int
    tables: dict[int, Table] = field(default_factory=dict)
    blobs: dict[int, Blob] = field(default_factory=dict)
    garbage: dict[int, int] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, int]]:
        """Iterate over the names and sizes of the used files in the directory of the database."""
        for number, table in self.tables.items():
            if not table.path:
                yield f"{number:06d}.sst", table.size
        linked = {table.oldest_blob for table in self.tables.values()} & self.blobs.keys()
        for number, blob in self.blobs.items():  # no edit removes a blob file
            in_use = number in linked or self.garbage.get(number, 0) < blob.count
            if in_use and number >= min(linked, default=number + 1):
                yield f"{number:06d}.blob", blob.size


@dataclass(slots=True)
class Manifest:
    """The content of a manifest, which is the result of its edits.

    Attributes
    ----------
    number : int
        The number of the manifest file.
    families : dict of int to Family
        The existing families by their ids, which are never used again.
    dropped : dict of str to int
        The names of dropped families. The values are the next file number as of each drop.
    files : set of int
        The numbers of all table files that the manifest has ever listed.
    log_number : int
        The number of the newest write-ahead log in it, which is needed until a later edit.
    last_sequence : int
        The last sequence number that was used before the last edit.
    ingested : set of int
        The sequence numbers of ingested table files, which no write-ahead log has.
    """

    number: int
    families: dict[int, Family] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    files: set[int] = field(default_factory=set)
    log_number: int = 0
    last_sequence: int = 0
    ingested: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.families.setdefault(_DEFAULT, Family("default", self.number))

    def apply(self, edit: Edit) -> None:
        """Apply an edit."""
        self.log_number = max(self.log_number, edit.log_number)
        self.last_sequence = max(self.last_sequence, edit.last_sequence)
        self.ingested |= {table.sequence for table in edit.tables.values()}
        if edit.adds is not None:
            # The families at the begin of a manifest are older than the manifest.
            self.families[edit.family] = Family(edit.adds, edit.next_file or self.number)
        elif edit.drops:
            gone = self.families.pop(edit.family, None)
            if gone is not None:
                self.dropped[gone.name] = edit.next_file or self.number
            return
        family = self.families.get(edit.family)
        if family is None:
            raise UnknownEditError(f"an edit of the family {edit.family}, which does not exist")
        for number in edit.removed:
            family.tables.pop(number, None)
        family.tables |= edit.tables  # a table that moves to another level is removed and added
        self.files |= edit.tables.keys()
        family.blobs |= edit.blobs
        for number, count in edit.garbage.items():
            family.garbage[number] = family.garbage.get(number, 0) + count

    @property
    def live(self) -> dict[str, int]:
        """The names of the used files, with their sizes in bytes."""
        return {name: size for one in self.families.values() for name, size in one.files()}


def check_manifest(path: Path) -> None:
    """Refuse a database whose manifest has lost its end.

    Raises
    ------
    CorruptionError
    """
    with suppress(OSError, UnknownEditError, ValueError, IndexError):
        manifest = read_manifest(path)
        names = [entry.name for entry in path.iterdir()]
        lost = _lost_families(path, names, manifest) or _lost_files(names, manifest)
        if lost:
            raise CorruptionError(
                f"rocksdb database {path}: MANIFEST-{manifest.number:06d} has lost its end: "
                f"{lost}. Opening it would lose rows without an error. Nothing was changed: put "
                "the file back from a copy, or restore the store from its changelog. To see "
                "which other stores and segments of the directory can be read, run: "
                f"{inspect_command(path)}"
            )


def file_faults(path: Path) -> list[str]:
    """Compare the files of a database with its manifest, and iterate over the faults."""
    with suppress(FileNotFoundError):  # it was dropped meanwhile
        for _ in range(_ATTEMPTS):
            before = current_manifest(path)
            faults = [*_file_faults(path)]
            if (
                not faults or current_manifest(path) == before
            ):  # else a writer has replaced files meanwhile
                return faults
    return []


def _file_faults(path: Path) -> Iterator[str]:
    try:
        check_manifest(path)
        manifest = read_manifest(path)
    except CorruptionError as error:
        yield str(error)
        return
    except UnknownEditError:  # of a newer RocksDB: opening the database with this one reports it
        return
    except (OSError, ValueError, IndexError) as error:
        yield f"its manifest cannot be read: {error!r}"
        return
    for name, size in sorted(manifest.live.items()):
        file = path / name
        there = file.stat().st_size if file.is_file() else None
        if there != size:
            found = "is missing" if there is None else f"has {there} bytes"
            yield f"{name} {found}, but must have {size} bytes"


def read_manifest(path: Path) -> Manifest:
    """Read the current manifest of a directory."""
    name = (path / "CURRENT").read_text().strip()
    manifest = Manifest(int(name.removeprefix("MANIFEST-")))
    for edit in read_edits((path / name).read_bytes()):
        manifest.apply(edit)
    return manifest


def _lost_families(path: Path, names: list[str], manifest: Manifest) -> str:
    """Return the fault if a newer options file lists other families, otherwise an empty text."""
    known = {family.name: family.since for family in manifest.families.values()}
    for options in sorted(filter(_OPTIONS.fullmatch, names)):  # RocksDB keeps the newest two
        number = int(options.removeprefix("OPTIONS-"))
        if number < manifest.number:
            continue
        text = (path / options).read_text(encoding="utf-8", errors="replace")
        named = {_ESCAPED.sub(r"\1", name) for name in _FAMILY.findall(text)}
        lost = {name for name in named - {*known} if number >= manifest.dropped.get(name, 0)}
        if lost:
            return f"{options} has {_listed(lost)}"
        gone = {name for name, since in known.items() if number >= since} - named
        if gone and _is_whole(text):
            return f"{options} shows that {_listed(gone)} was dropped"
    return ""


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _is_whole(options: str) -> bool:
    """Return True if an options file is complete. Then all families end with the same option."""
    _, *families = _FAMILY.split(options)[::2]
    ends = {family.rstrip().rpartition("\n")[2].partition("=")[0] for family in families}
    return len(ends) == 1 and options.endswith("\n")


def _lost_files(names: list[str], manifest: Manifest) -> str:
    """Return the fault if a table file has neither a log nor an edit, otherwise an empty text."""
    # The log and the files of a dropped family are ignored.
    begun = max(manifest.log_number + 1, manifest.number + 1, *manifest.dropped.values(), 0)
    lost = sorted(n for n in _numbers(names, "sst") - manifest.files if n >= begun)
    # The numbers of the last log in the manifest: from its last flush, or older than itself.
    logs = range(manifest.log_number, max(manifest.log_number + 1, manifest.number))
    if not lost or not _numbers(names, "log").isdisjoint(logs):
        return ""
    files = ", ".join(f"{number:06d}.sst" for number in lost)
    return f"it does not list {files}, and the log with the same rows is gone"


def _numbers(names: list[str], kind: str) -> set[int]:
    found = (re.fullmatch(rf"(\d+)\.{kind}", name) for name in names)
    return {int(match[1]) for match in found if match}
