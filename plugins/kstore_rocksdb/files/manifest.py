"""Read the manifest of a RocksDB database, and detect a manifest that was truncated.

A truncated manifest looks like a valid older manifest, so RocksDB accepts it without an error. The
database then loses the files and column families that were added later, and contains column
families that were dropped later. RocksDB also deletes the files that it does not find in the
manifest. kstore detects the truncation before RocksDB opens the database, because other files still
show what the manifest has lost:

* RocksDB writes an options file after each change of the column families. This file contains the
  names of all column families.
* A flush writes the rows of a write-ahead log to table files. RocksDB deletes the log only after it
  has added the table files to the manifest. So if a table file is not in the manifest, either the
  log still exists because the flush was interrupted, or the manifest was truncated.

All files of a database get their numbers from one counter. Each change of the column families
writes the counter to the manifest. So the number of an options file shows whether the file is older
than a change. The number of a table file shows whether the file is older than the drop of a column
family. A table file that is older than the drop may belong to the dropped column family, so such a
file proves no truncation.
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
"""The id of the column family ``default``, which every database has."""


@dataclass(slots=True)
class Family:
    """An existing column family in a manifest.

    Attributes
    ----------
    name : str
        The name of the column family.
    since : int
        The file number at which the column family was added. A file with a smaller number is older
        than the column family.
    tables : dict of int to Table
        The table files in use, by number.
    blobs : dict of int to Blob
        All blob files that were ever added, by number.
    garbage : dict of int to int
        The number of unused values in a blob file, by the number of the file.
    """

    name: str
    since: int
    tables: dict[int, Table] = field(default_factory=dict)
    blobs: dict[int, Blob] = field(default_factory=dict)
    garbage: dict[int, int] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield the name and size of each file in use in the directory of the database."""
        for number, table in self.tables.items():
            if not table.path:
                yield f"{number:06d}.sst", table.size
        linked = {table.oldest_blob for table in self.tables.values()} & self.blobs.keys()
        # No edit removes a blob file, so find the files that are still in use.
        for number, blob in self.blobs.items():
            in_use = number in linked or self.garbage.get(number, 0) < blob.count
            if in_use and number >= min(linked, default=number + 1):
                yield f"{number:06d}.blob", blob.size


@dataclass(slots=True)
class Manifest:
    """The state of a database that results from the edits of its manifest.

    Attributes
    ----------
    number : int
        The number of the manifest file.
    families : dict of int to Family
        The existing column families, by id. An id is never used for two column families.
    dropped : dict of str to int
        The dropped column families. For each name, the value is the next file number at the time
        of the drop.
    files : set of int
        The numbers of all table files that any edit has added.
    log_number : int
        The greatest log number in the edits. An edit names the oldest write-ahead log that its
        column family still needs.
    last_sequence : int
        The greatest sequence number in the edits.
    ingested : set of int
        The sequence numbers of ingested table files. All rows of such a file have the same number,
        which is in no write-ahead log.
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
        """Change the state as an edit says."""
        self.log_number = max(self.log_number, edit.log_number)
        self.last_sequence = max(self.last_sequence, edit.last_sequence)
        self.ingested |= {table.sequence for table in edit.tables.values()}
        if edit.adds is not None:
            # An edit without a file number is at the beginning of the manifest. The column family
            # of such an edit is older than the manifest.
            self.families[edit.family] = Family(edit.adds, edit.next_file or self.number)
        elif edit.drops:
            gone = self.families.pop(edit.family, None)
            if gone is not None:
                self.dropped[gone.name] = edit.next_file or self.number
            return
        family = self.families.get(edit.family)
        if family is None:
            raise UnknownEditError(
                f"the manifest changes the column family {edit.family}, which does not exist"
            )
        for number in edit.removed:
            family.tables.pop(number, None)
        family.tables |= edit.tables  # a table that moves to another level is removed and added
        self.files |= edit.tables.keys()
        family.blobs |= edit.blobs
        for number, count in edit.garbage.items():
            family.garbage[number] = family.garbage.get(number, 0) + count

    @property
    def live(self) -> dict[str, int]:
        """The sizes in bytes of all files in use, by name."""
        return {name: size for one in self.families.values() for name, size in one.files()}


def check_manifest(path: Path) -> None:
    """Raise CorruptionError if the manifest of a database was truncated."""
    with suppress(OSError, UnknownEditError, ValueError, IndexError):
        manifest = read_manifest(path)
        names = [entry.name for entry in path.iterdir()]
        lost = _lost_families(path, names, manifest) or _lost_files(names, manifest)
        if lost:
            raise CorruptionError(
                f"rocksdb database {path}: MANIFEST-{manifest.number:06d} has lost its end: "
                f"{lost}. RocksDB would lose rows without an error. Nothing was changed. Put "
                "the file back from a copy, or restore the store from its changelog. To see "
                "which other stores and segments of the directory can be read, run: "
                f"{inspect_command(path)}"
            )


def file_faults(path: Path) -> list[str]:
    """Compare the files of a database with its manifest, and return a message for each fault."""
    with suppress(FileNotFoundError):  # the database was dropped meanwhile
        for _ in range(_ATTEMPTS):
            before = current_manifest(path)
            faults = [*_file_faults(path)]
            # If the manifest has changed, a writer may have replaced files during the check.
            if not faults or current_manifest(path) == before:
                return faults
    return []


def _file_faults(path: Path) -> Iterator[str]:
    try:
        check_manifest(path)
        manifest = read_manifest(path)
    except CorruptionError as error:
        yield str(error)
        return
    except UnknownEditError:  # from a newer RocksDB; the open raises an error for it
        return
    except (OSError, ValueError, IndexError) as error:
        yield f"the manifest cannot be read: {error!r}"
        return
    for name, size in sorted(manifest.live.items()):
        file = path / name
        there = file.stat().st_size if file.is_file() else None
        if there != size:
            found = "is missing" if there is None else f"has {there} bytes"
            yield f"{name} {found}, but must have {size} bytes"


def read_manifest(path: Path) -> Manifest:
    """Read the current manifest of the database in ``path``."""
    name = (path / "CURRENT").read_text().strip()
    manifest = Manifest(int(name.removeprefix("MANIFEST-")))
    for edit in read_edits((path / name).read_bytes()):
        manifest.apply(edit)
    return manifest


def _lost_families(path: Path, names: list[str], manifest: Manifest) -> str:
    """Return a message if a newer options file has other column families, otherwise ``""``."""
    known = {family.name: family.since for family in manifest.families.values()}
    for options in sorted(filter(_OPTIONS.fullmatch, names)):  # RocksDB keeps the newest two
        number = int(options.removeprefix("OPTIONS-"))
        if number < manifest.number:
            continue
        text = (path / options).read_text(encoding="utf-8", errors="replace")
        named = {_ESCAPED.sub(r"\1", name) for name in _FAMILY.findall(text)}
        lost = {name for name in named - {*known} if number >= manifest.dropped.get(name, 0)}
        if lost:
            return f"{options} contains {_listed(lost)}, which the manifest does not contain"
        gone = {name for name, since in known.items() if number >= since} - named
        if gone and _is_whole(text):
            return f"{options} shows that {_listed(gone)} was dropped, but the manifest lists it"
    return ""


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _is_whole(options: str) -> bool:
    """Return True if an options file is complete, or was cut at the end of a column family.

    The options of a column family end with the options of its table files. Every section ends
    with an empty line.
    """
    last = options.rpartition("\n[")[2]
    return last.startswith("TableOptions/") and last.endswith("\n  \n")


def _lost_files(names: list[str], manifest: Manifest) -> str:
    """Return a message if the manifest has lost table files of a flush, otherwise ``""``."""
    # Ignore files that may belong to a dropped column family.
    begun = max(manifest.log_number + 1, manifest.number + 1, *manifest.dropped.values(), 0)
    lost = sorted(n for n in _numbers(names, "sst") - manifest.files if n >= begun)
    # The log that contains the same rows has one of these numbers.
    logs = range(manifest.log_number, max(manifest.log_number + 1, manifest.number))
    if not lost or not _numbers(names, "log").isdisjoint(logs):
        return ""
    files = ", ".join(f"{number:06d}.sst" for number in lost)
    return f"the manifest does not list {files}, and the log with the same rows is missing"


def _numbers(names: list[str], kind: str) -> set[int]:
    found = (re.fullmatch(rf"(\d+)\.{kind}", name) for name in names)
    return {int(match[1]) for match in found if match}
