"""The edits of a manifest: what each record says, in the format of RocksDB's ``version_edit.h``.

A manifest is a log (``log_format.h``) of edits. Each edit is about one column family, which its
record names behind the files that it adds and removes, so a record is read whole before it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["HEADER", "Blob", "Edit", "Table", "UnknownEditError", "read_edits", "records"]

_BLOCK = 32_768
HEADER = 7
"""How many bytes stand before the content of a record of a log, or of a part of one."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

# Tags of fields, by what follows them. All of them up to RocksDB 11 are here.
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _CURSOR, _DELETED_FILE = 1, 2, 3, 5, 6
_LAST_SEQUENCE = 4
_NUMBERS = (9, 10, 203)
"""The previous log, the oldest log to keep, the largest family id."""
_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 7, 100, 102, 103
_FAMILY, _ADD_FAMILY, _DROP_FAMILY = 200, 201, 202
_GROUP = 300
_NEW_BLOB, _BLOB_GARBAGE = 400, 401
_IGNORABLE = 1 << 13
"""A field whose tag has this bit tells its length, and may be passed over ..."""
_OLD_BLOB, _OLD_BLOB_GARBAGE, _OLD_LOG, _OLD_LOG_GONE = (_IGNORABLE + n for n in (2, 3, 4, 5))
"""... but for these four, which only releases of 2020 have written."""

_END_OF_TABLE, _END_OF_BLOB, _END_OF_LOG = 1, 0, 1
_OLDEST_BLOB, _PATH = 4, 65
_BLOB_ENDS = 30 + 32
"""How many bytes the head and the foot of a file of blobs have."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table file.

    Attributes
    ----------
    size : int
        In bytes.
    oldest_blob : int
        Number of the oldest file of blobs that it refers to; 0 for none.
    path : int
        Index of the directory that it lies in; 0 for the database's own.
    sequence : int
        The sequence number of all its rows, where they have one, as those that were ingested have.
    """

    size: int
    oldest_blob: int = 0
    path: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of large values that lie outside the tables.

    Attributes
    ----------
    size : int
        In bytes.
    count : int
        How many values it has.
    """

    size: int
    count: int


@dataclass(slots=True)
class Edit:
    """What one record says.

    Attributes
    ----------
    family : int
        Id of the column family that it is about.
    adds : str or None
        Name of the family, where the edit adds it.
    drops : bool
        The edit drops the family.
    next_file : int
        The least file number that was not given out yet; 0 where the edit does not tell.
    log_number : int
        Of the oldest write-ahead log that the family still needs; 0 where the edit does not tell.
    last_sequence : int
        The last sequence number that was given out; 0 where the edit does not tell.
    removed : list of int
        Numbers of table files.
    tables : dict of int to Table
        The new ones.
    blobs : dict of int to Blob
        The new ones.
    garbage : dict of int to int
        Numbers of files of blobs, and how many of their values are no longer in use.
    to_come : int
        How many more edits its group has. Those of a group count together, or not at all.
    """

    family: int = 0
    adds: str | None = None
    drops: bool = False
    next_file: int = 0
    log_number: int = 0
    last_sequence: int = 0
    removed: list[int] = field(default_factory=list)
    tables: dict[int, Table] = field(default_factory=dict)
    blobs: dict[int, Blob] = field(default_factory=dict)
    garbage: dict[int, int] = field(default_factory=dict)
    to_come: int = 0


class UnknownEditError(Exception):
    """An edit has a field that is not known here, and must not be passed over."""


def read_edits(data: bytes) -> Iterator[Edit]:
    """The edits that count, in their order: groups that are not whole are left out.

    Raises
    ------
    UnknownEditError
    IndexError
        A record ends within a field.
    """
    group: list[Edit] = []
    for record in records(data):
        edit = _read_edit(_Fields(record))
        group.append(edit)
        if not edit.to_come:
            yield from group
            group = []


def records(data: bytes) -> Iterator[bytes]:
    """The whole records of a log file; RocksDB looks at their checksums.

    Raises
    ------
    UnknownEditError
        A record is of a kind that is not known here.
    """
    at, parts = 0, []
    while len(data) - at >= HEADER:
        if _BLOCK - at % _BLOCK < HEADER:
            at += _BLOCK - at % _BLOCK
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        at += HEADER
        if not kind or at + size > len(data):
            return
        parts.append(data[at : at + size])
        at += size
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
        elif kind not in (_FIRST, _MIDDLE):
            raise UnknownEditError(f"a record of kind {kind}")


class _Fields:
    """The fields of a record."""

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
            raise IndexError("a record ends within a field")
        found = self._data[self._at : end]
        self._at = end
        return found

    def custom(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Tags with their content, until the tag that ends them."""
        while (tag := self.number()) != end:
            yield tag, self.text()


def _read_edit(fields: _Fields) -> Edit:
    edit = Edit()
    while fields.more:
        tag = fields.number()
        if tag == _LOG_NUMBER:
            edit.log_number = fields.number()
        elif tag == _NEXT_FILE:
            edit.next_file = fields.number()
        elif tag == _LAST_SEQUENCE:
            edit.last_sequence = fields.number()
        elif tag == _GROUP:
            edit.to_come = fields.number()
        elif tag == _FAMILY:
            edit.family = fields.number()
        elif tag == _ADD_FAMILY:
            edit.adds = fields.text().decode(errors="replace")
        elif tag == _DROP_FAMILY:
            edit.drops = True
        elif tag in _NUMBERS:
            fields.number()
        elif tag == _CURSOR:
            fields.number()  # level
            fields.text()
        elif tag == _DELETED_FILE:
            fields.number()  # level
            edit.removed.append(fields.number())
        elif tag in (_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4):
            number, table = _read_table(fields, tag)
            edit.tables[number] = table
        elif tag in (_NEW_BLOB, _OLD_BLOB):
            number, blob = _read_blob(fields)
            edit.blobs[number] = blob
        elif tag in (_BLOB_GARBAGE, _OLD_BLOB_GARBAGE):
            number, count, _ = fields.number(), fields.number(), fields.number()
            edit.garbage[number] = edit.garbage.get(number, 0) + count
            list(fields.custom(_END_OF_BLOB))
        elif tag == _OLD_LOG:
            fields.number()
            while fields.number() != _END_OF_LOG:
                fields.number()
        elif tag == _OLD_LOG_GONE:
            fields.number()
        elif tag == _COMPARATOR or tag & _IGNORABLE:
            fields.text()
        else:
            raise UnknownEditError(f"a field of tag {tag}")
    return edit


def _read_table(fields: _Fields, tag: int) -> tuple[int, Table]:
    """The number of a table file, and what is told of it."""
    path = blob = least = greatest = 0
    fields.number()  # level
    number = fields.number()
    if tag == _NEW_FILE_3:
        path = fields.number()
    size = fields.number()
    fields.text()
    fields.text()  # smallest and largest key
    if tag != _NEW_FILE:
        least, greatest = fields.number(), fields.number()  # sequence numbers
    if tag == _NEW_FILE_4:
        for custom, content in fields.custom(_END_OF_TABLE):
            if custom == _OLDEST_BLOB:
                blob = _Fields(content).number()
            elif custom == _PATH:
                path = content[0]
    return number, Table(size, blob, path, least if least == greatest else 0)


def _read_blob(fields: _Fields) -> tuple[int, Blob]:
    """The number of a file of blobs, and what is told of it."""
    number, count, size = fields.number(), fields.number(), fields.number()
    fields.text()
    fields.text()  # name and value of its checksum
    list(fields.custom(_END_OF_BLOB))
    return number, Blob(size + _BLOB_ENDS, count)
