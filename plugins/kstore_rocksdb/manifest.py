"""What a manifest says, and whether it has lost its end.

A manifest that is cut reads as an older one that is sound: RocksDB takes it, forgets the files and
the column families that came later, brings back those that were dropped later, and removes files,
all without a word. But what was lost was about something that is still there:

* the options file, which is written after each change of the column families, names them;
* table files that the manifest has never heard of hold what was in a write-ahead log, which is kept
  until the manifest has them: they belong to a flush that was interrupted if the log is there, and
  to one that was forgotten if it is not.

All files of a database take their numbers from one counter, which a change of the families notes in
the manifest. So numbers tell whether an options file was written before the change or after it, and
whether a table file was begun before a family was dropped, and may be what is left of that family.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kstore_core.errors import CorruptionError
from kstore_rocksdb.edits import Blob, Edit, Table, UnknownEditError, read_edits
from kstore_rocksdb.errors import inspect_command
from kstore_rocksdb.readonly import moment

__all__ = ["Family", "Manifest", "check_manifest", "file_faults", "read_manifest"]

_ATTEMPTS = 5
_OPTIONS = re.compile(r"OPTIONS-\d+")
_FAMILY = re.compile(r'^\[CFOptions "(.*)"\]$', re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
_DEFAULT = 0
"""The id of the family that every database has."""


@dataclass(slots=True)
class Family:
    """A column family that is there.

    Attributes
    ----------
    name : str
    since : int
        Options files of this number and above were written when it was there.
    tables : dict of int to Table
        Those in use.
    blobs : dict of int to Blob
        All that were ever added.
    garbage : dict of int to int
        How many values of each are no longer in use.
    """

    name: str
    since: int
    tables: dict[int, Table] = field(default_factory=dict)
    blobs: dict[int, Blob] = field(default_factory=dict)
    garbage: dict[int, int] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, int]]:
        """Names of the files in use that lie in the database's directory, and their sizes."""
        for number, table in self.tables.items():
            if not table.path:
                yield f"{number:06d}.sst", table.size
        linked = {table.oldest_blob for table in self.tables.values()} & self.blobs.keys()
        for number, blob in self.blobs.items():  # none is said to go
            in_use = number in linked or self.garbage.get(number, 0) < blob.count
            if in_use and number >= min(linked, default=number + 1):
                yield f"{number:06d}.blob", blob.size


@dataclass(slots=True)
class Manifest:
    """What its edits say together.

    Attributes
    ----------
    number : int
        Of the file.
    families : dict of int to Family
        Those that are there, by their ids, which are never given twice.
    dropped : dict of str to int
        Names of families that were dropped, and the least file number that was not given out then.
    files : set of int
        The numbers of table files that it knew at some time.
    log_number : int
        Of the newest write-ahead log that it knows; it is needed until a later edit.
    last_sequence : int
        The last sequence number that was given out before the last edit.
    ingested : set of int
        Sequence numbers of table files that were ingested, which no write-ahead log has.
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
        """Take in an edit."""
        self.log_number = max(self.log_number, edit.log_number)
        self.last_sequence = max(self.last_sequence, edit.last_sequence)
        self.ingested |= {table.sequence for table in edit.tables.values()}
        if edit.adds is not None:
            # The families that a manifest begins with are older than itself.
            self.families[edit.family] = Family(edit.adds, edit.next_file or self.number)
        elif edit.drops:
            gone = self.families.pop(edit.family, None)
            if gone is not None:
                self.dropped[gone.name] = edit.next_file or self.number
            return
        family = self.families.get(edit.family)
        if family is None:
            raise UnknownEditError(f"an edit of the family {edit.family}, which is not there")
        for number in edit.removed:
            family.tables.pop(number, None)
        family.tables |= edit.tables  # one that moves to another level is removed and added
        self.files |= edit.tables.keys()
        family.blobs |= edit.blobs
        for number, count in edit.garbage.items():
            family.garbage[number] = family.garbage.get(number, 0) + count

    @property
    def live(self) -> dict[str, int]:
        """The files in use, by name, and how many bytes each has."""
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
                f"{lost}. Opened so, it would drop rows without a word. Nothing was changed: put "
                "the file back from a copy, or restore the store from its changelog. See what of "
                f"the others can be read with: {inspect_command(path)}"
            )


def file_faults(path: Path) -> list[str]:
    """What is wrong with a database's files by what its manifest says, without opening it."""
    with suppress(FileNotFoundError):  # it is dropped meanwhile
        for _ in range(_ATTEMPTS):
            before = moment(path)
            faults = [*_file_faults(path)]
            if not faults or moment(path) == before:  # or a writer has replaced files meanwhile
                return faults
    return []


def _file_faults(path: Path) -> Iterator[str]:
    try:
        check_manifest(path)
        manifest = read_manifest(path)
    except CorruptionError as error:
        yield str(error)
        return
    except (
        UnknownEditError
    ):  # of a newer RocksDB; the one that opens the database knows, or refuses
        return
    except (OSError, ValueError, IndexError) as error:
        yield f"its manifest cannot be read: {error!r}"
        return
    for name, size in sorted(manifest.live.items()):
        file = path / name
        there = file.stat().st_size if file.is_file() else None
        if there != size:
            found = "is missing" if there is None else f"has {there} bytes"
            yield f"{name} {found}, and is to have {size}"


def read_manifest(path: Path) -> Manifest:
    """What the current manifest of a directory says."""
    name = (path / "CURRENT").read_text().strip()
    manifest = Manifest(int(name.removeprefix("MANIFEST-")))
    for edit in read_edits((path / name).read_bytes()):
        manifest.apply(edit)
    return manifest


def _lost_families(path: Path, names: list[str], manifest: Manifest) -> str:
    """Families of which a later options file tells something else; empty where there are none."""
    known = {family.name: family.since for family in manifest.families.values()}
    for options in sorted(filter(_OPTIONS.fullmatch, names)):  # the newest two are kept
        number = int(options.removeprefix("OPTIONS-"))
        if number < manifest.number:
            continue
        text = (path / options).read_text(encoding="utf-8", errors="replace")
        named = {_ESCAPED.sub(r"\1", name) for name in _FAMILY.findall(text)}
        lost = {name for name in named - {*known} if number >= manifest.dropped.get(name, 0)}
        if lost:
            return f"{options} knows of {_listed(lost)}"
        gone = {name for name, since in known.items() if number >= since} - named
        if gone and _is_whole(text):
            return f"{options} knows that {_listed(gone)} was dropped"
    return ""


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _is_whole(options: str) -> bool:
    """Whether an options file has its end: what it tells of each family ends in the same way."""
    _, *families = _FAMILY.split(options)[::2]
    ends = {family.rstrip().rpartition("\n")[2].partition("=")[0] for family in families}
    return len(ends) == 1 and options.endswith("\n")


def _lost_files(names: list[str], manifest: Manifest) -> str:
    """Table files that stand for a log that is gone; empty where there are none."""
    # What a dropped family was about to write counts for nothing, its log and its files alike.
    begun = max(manifest.log_number + 1, manifest.number + 1, *manifest.dropped.values(), 0)
    lost = sorted(n for n in _numbers(names, "sst") - manifest.files if n >= begun)
    # The log that was begun last as far as it knows: by a flush, or before it was made itself.
    logs = range(manifest.log_number, max(manifest.log_number + 1, manifest.number))
    if not lost or not _numbers(names, "log").isdisjoint(logs):
        return ""
    files = ", ".join(f"{number:06d}.sst" for number in lost)
    return f"it does not know {files}, and the log that has the same rows is gone"


def _numbers(names: list[str], kind: str) -> set[int]:
    found = (re.fullmatch(rf"(\d+)\.{kind}", name) for name in names)
    return {int(match[1]) for match in found if match}
