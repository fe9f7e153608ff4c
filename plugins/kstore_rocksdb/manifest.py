"""What a manifest says, and whether it has lost its end.

A manifest that is cut reads as an older one that is sound: RocksDB takes it, forgets the files and
the column families that came later, drops what the write-ahead log has for them, and removes the
files, all without a word. But what was lost was about something that is still there:

* the options file, which is written after each change of the column families, names them;
* table files that the manifest has never heard of hold what was in a write-ahead log, which is kept
  until the manifest has them: they belong to a flush that was interrupted if the log is there, and
  to one that was forgotten if it is not.

The format is that of RocksDB's ``version_edit.h`` and ``log_format.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kstore_core.errors import CorruptionError
from kstore_rocksdb.errors import inspect_command
from kstore_rocksdb.readonly import moment

__all__ = ["Manifest", "check_manifest", "file_faults", "read_manifest"]

_ATTEMPTS = 5
_BLOCK = 32_768
_HEADER = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_FAMILY = re.compile(r'^\[CFOptions "(.*)"\]$', re.MULTILINE)
_IGNORABLE = 1 << 13


@dataclass(slots=True)
class Manifest:
    """What its edits say together.

    Attributes
    ----------
    number : int
        Of the file.
    families : set of str
        Those that it knew at some time.
    files : set of int
        The numbers of table files that it knew at some time.
    live : dict of int to int
        Those that are in use, and how many bytes each has.
    log_number : int
        Of the newest write-ahead log that it knows; it is needed until a later edit.
    """

    number: int
    families: set[str] = field(default_factory=lambda: {"default"})
    files: set[int] = field(default_factory=set)
    live: dict[int, int] = field(default_factory=dict)
    log_number: int = 0


class _UnknownError(Exception):
    """An edit has what is not known here."""


def check_manifest(path: Path) -> None:
    """Refuse a database whose manifest has lost its end.

    Raises
    ------
    CorruptionError
    """
    with suppress(OSError, _UnknownError, ValueError, IndexError):
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
    except (_UnknownError, OSError, ValueError, IndexError) as error:
        yield f"its manifest cannot be read: {error!r}"
        return
    for number, size in sorted(manifest.live.items()):
        table = path / f"{number:06d}.sst"
        there = table.stat().st_size if table.is_file() else None
        if there != size:
            found = "is missing" if there is None else f"has {there} bytes"
            yield f"{table.name} {found}, and is to have {size}"


def read_manifest(path: Path) -> Manifest:
    """What the current manifest of a directory says."""
    name = (path / "CURRENT").read_text().strip()
    manifest = Manifest(int(name.removeprefix("MANIFEST-")))
    group: list[bytes] = []
    for record in _records((path / name).read_bytes()):
        # Edits of a group count together, or not at all: each says how many are still to come.
        group.append(record)
        if not _read_edit(record, Manifest(0)):
            for edit in group:
                _read_edit(edit, manifest)
            group = []
    return manifest


def _lost_families(path: Path, names: list[str], manifest: Manifest) -> str:
    """Families of which a later options file tells; empty where there are none."""
    options = max((name for name in names if re.fullmatch(r"OPTIONS-\d+", name)), default="")
    if not options or int(options.removeprefix("OPTIONS-")) < manifest.number:
        return ""
    text = (path / options).read_text(encoding="utf-8", errors="replace")
    lost = sorted({*_FAMILY.findall(text)} - manifest.families)
    return f"{options} knows of {', '.join(map(repr, lost))}" if lost else ""


def _lost_files(names: list[str], manifest: Manifest) -> str:
    """Table files that stand for a log that is gone; empty where there are none."""
    since = max(manifest.log_number, manifest.number)
    lost = sorted(n for n in _numbers(names, "sst") - manifest.files if n > since)
    # The log that was begun last as far as it knows: by a flush, or before it was made itself.
    logs = range(manifest.log_number, max(manifest.log_number + 1, manifest.number))
    if not lost or not _numbers(names, "log").isdisjoint(logs):
        return ""
    files = ", ".join(f"{number:06d}.sst" for number in lost)
    return f"it does not know {files}, and the log that has the same rows is gone"


def _numbers(names: list[str], kind: str) -> set[int]:
    found = (re.fullmatch(rf"(\d+)\.{kind}", name) for name in names)
    return {int(match[1]) for match in found if match}


def _records(data: bytes) -> Iterator[bytes]:
    """The whole records of a log file; RocksDB looks at their checksums."""
    at, parts = 0, []
    while len(data) - at >= _HEADER:
        if _BLOCK - at % _BLOCK < _HEADER:
            at += _BLOCK - at % _BLOCK
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        at += _HEADER
        if not kind or at + size > len(data):
            return
        parts.append(data[at : at + size])
        at += size
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
        elif kind not in (_FIRST, _MIDDLE):
            raise _UnknownError


def _read_edit(record: bytes, manifest: Manifest) -> int:
    """Take in one edit; how many more its group has."""
    to_come = 0
    fields = _Fields(record)
    while fields.more:
        tag = fields.number()
        if tag == 2:  # log number
            manifest.log_number = max(manifest.log_number, fields.number())
        elif tag == 300:
            to_come = fields.number()
        elif tag in (3, 4, 9, 10, 200, 203):
            fields.number()  # files, sequence, logs, the family that is meant, all families
        elif tag == 5:  # where a compaction was
            fields.number()
            fields.text()
        elif tag == 6:  # a table file less
            fields.number()
            manifest.live.pop(fields.number(), None)
        elif tag in (100, 102, 103):  # a table file more
            _read_file(fields, tag, manifest)
        elif tag == 201:  # a family more
            manifest.families.add(fields.text().decode())
        elif tag == 1 or tag > _IGNORABLE:
            fields.text()
        elif tag != 202:  # a family less
            raise _UnknownError
    return to_come


def _read_file(fields: _Fields, tag: int, manifest: Manifest) -> None:
    fields.number()  # level
    number = fields.number() & (1 << 62) - 1
    if tag == 102:
        fields.number()  # on which of several paths
    manifest.files.add(number)
    manifest.live[number] = fields.number()
    fields.text()
    fields.text()  # smallest and largest key
    fields.number()
    fields.number()  # and sequence number
    if tag == 103:
        while fields.number() != 1:
            fields.text()


class _Fields:
    """The fields of an edit."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        """A varint."""
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def text(self) -> bytes:
        """Bytes behind their length."""
        size = self.number()
        end = self._at + size
        if end > len(self._data):
            raise IndexError
        found = self._data[self._at : end]
        self._at = end
        return found
