"""Read the edits of a RocksDB manifest.

A manifest is a log of edits. RocksDB defines the format of an edit in ``version_edit.h``, and the
format of a log in ``log_format.h``. Each edit changes one column family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["HEADER", "Blob", "Edit", "Table", "UnknownEditError", "read_edits", "records"]

_BLOCK = 32_768
HEADER = 7
"""The number of bytes before the content of each fragment of a log record."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

# The tags of the fields of an edit. The list is complete up to RocksDB 11.
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _CURSOR, _DELETED_FILE = 1, 2, 3, 5, 6
_LAST_SEQUENCE = 4
_NUMBERS = (9, 10, 203)
"""The tags of the previous log, the oldest log to keep and the largest id of a column family."""
_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 7, 100, 102, 103
_FAMILY, _ADD_FAMILY, _DROP_FAMILY = 200, 201, 202
_GROUP = 300
_NEW_BLOB, _BLOB_GARBAGE = 400, 401
_IGNORABLE = 1 << 13
"""A bit in the tag of a field. If it is 1, the field begins with its length and can be skipped."""
_OLD_BLOB, _OLD_BLOB_GARBAGE, _OLD_LOG, _OLD_LOG_GONE = (_IGNORABLE + n for n in (2, 3, 4, 5))
"""Four tags with this bit, but without a length. Only RocksDB releases of 2020 wrote these tags."""

_END_OF_TABLE, _END_OF_BLOB, _END_OF_LOG = 1, 0, 1
_OLDEST_BLOB, _PATH = 4, 65
_BLOB_ENDS = 30 + 32
"""The size of the header and the footer of a blob file, in bytes."""


@dataclass(frozen=True, slots=True)
class Table:
    """The description of a table file in a manifest.

    Attributes
    ----------
    size : int
        The size of the file in bytes.
    oldest_blob : int
        The number of the oldest blob file that the table refers to, or 0.
    path : int
        The index of the directory of the file. 0 is the directory of the database.
    sequence : int
        The sequence number of the rows if all rows have the same number, otherwise 0. All rows of
        an ingested file have the same number.
    """

    size: int
    oldest_blob: int = 0
    path: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Blob:
    """The description of a blob file, which contains large values outside of the table files.

    Attributes
    ----------
    size : int
        The size of the file in bytes.
    count : int
        The number of values in the file.
    """

    size: int
    count: int


@dataclass(slots=True)
class Edit:
    """One edit of a manifest, which changes one column family.

    Attributes
    ----------
    family : int
        The id of the column family.
    adds : str or None
        The name of the column family if the edit adds it, otherwise None.
    drops : bool
        True if the edit drops the column family.
    next_file : int
        The number that the next new file will get; 0 if the edit does not contain it.
    log_number : int
        The number of the oldest write-ahead log that the column family still needs; 0 if the edit
        does not contain it.
    last_sequence : int
        The last sequence number that was used; 0 if the edit does not contain it.
    removed : list of int
        The numbers of the table files that the edit removes.
    tables : dict of int to Table
        The table files that the edit adds, by number.
    blobs : dict of int to Blob
        The blob files that the edit adds, by number.
    garbage : dict of int to int
        For each number of a blob file, the number of its values that became unused.
    to_come : int
        The number of edits of the same group that follow. The edits of a group take effect
        together.
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
    """The error for a manifest that contains something that kstore cannot read."""


def read_edits(data: bytes) -> Iterator[Edit]:
    """Yield the edits of a manifest in their order, except those of an incomplete last group.

    Raises
    ------
    UnknownEditError
        An edit has an unknown field that a reader must not skip.
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
    """Yield the complete records of a log file, without a check of their checksums.

    Raises
    ------
    UnknownEditError
        A record has an unknown kind.
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
            raise UnknownEditError(f"the manifest contains a record of the unknown kind {kind}")


class _Fields:
    """A reader of the fields of a record."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        """Read an integer of variable length, and return the integer."""
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def text(self) -> bytes:
        """Read a length and then as many bytes, and return the bytes."""
        size = self.number()
        end = self._at + size
        if end > len(self._data):
            raise IndexError("a record of the manifest ends within a field")
        found = self._data[self._at : end]
        self._at = end
        return found

    def custom(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield pairs of a tag and its content, until the tag ``end`` is read."""
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
            raise UnknownEditError(f"the manifest contains a field with the unknown tag {tag}")
    return edit


def _read_table(fields: _Fields, tag: int) -> tuple[int, Table]:
    """Read the field of an added table file. Return the file's number and its description."""
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
    """Read the field of an added blob file. Return the file's number and its description."""
    number, count, size = fields.number(), fields.number(), fields.number()
    fields.text()
    fields.text()  # name and value of its checksum
    list(fields.custom(_END_OF_BLOB))
    return number, Blob(size + _BLOB_ENDS, count)
