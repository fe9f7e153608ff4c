"""The edits of a manifest, in the format of RocksDB's ``version_edit.h``.

A manifest is a log (``log_format.h``) of edits. Each edit changes one column family. The id of the
family follows the added and removed files in the record, so a whole record must be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["HEADER", "Blob", "Edit", "Table", "UnknownEditError", "read_edits", "records"]

_BLOCK = 32_768
HEADER = 7
"""The number of bytes before the content of a log record, or of a part of one."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

# Tags of fields, grouped by their content; complete up to RocksDB 11.
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _CURSOR, _DELETED_FILE = 1, 2, 3, 5, 6
_LAST_SEQUENCE = 4
_NUMBERS = (9, 10, 203)
"""The previous log, the oldest log to keep, the largest family id."""
_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 7, 100, 102, 103
_FAMILY, _ADD_FAMILY, _DROP_FAMILY = 200, 201, 202
_GROUP = 300
_NEW_BLOB, _BLOB_GARBAGE = 400, 401
_IGNORABLE = 1 << 13
"""A field whose tag has this bit has a length, and may be skipped ..."""
_OLD_BLOB, _OLD_BLOB_GARBAGE, _OLD_LOG, _OLD_LOG_GONE = (_IGNORABLE + n for n in (2, 3, 4, 5))
"""... except these four, which only releases of 2020 wrote."""

_END_OF_TABLE, _END_OF_BLOB, _END_OF_LOG = 1, 0, 1
_OLDEST_BLOB, _PATH = 4, 65
_BLOB_ENDS = 30 + 32
"""The size of the head and the foot of a blob file."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table file.

    Attributes
    ----------
    size : int
        In bytes.
    oldest_blob : int
        The number of the oldest blob file that the table refers to, or 0.
    path : int
        The index of the file's directory. 0 is the directory of the database.
    sequence : int
        The sequence number of all rows of an ingested file, otherwise 0.
    """

    size: int
    oldest_blob: int = 0
    path: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob file: large values outside the tables.

    Attributes
    ----------
    size : int
        In bytes.
    count : int
        The number of its values.
    """

    size: int
    count: int


@dataclass(slots=True)
class Edit:
    """One edit: the content of a record.

    Attributes
    ----------
    family : int
        The id of its column family.
    adds : str or None
        The name of the family, if the edit adds it.
    drops : bool
        True if the edit drops the family.
    next_file : int
        The next file number; 0 if the edit does not have it.
    log_number : int
        The oldest write-ahead log that the family still needs; 0 if the edit does not have it.
    last_sequence : int
        The last used sequence number; 0 if the edit does not have it.
    removed : list of int
        The numbers of removed table files.
    tables : dict of int to Table
        The new table files, by number.
    blobs : dict of int to Blob
        The new blob files, by number.
    garbage : dict of int to int
        The numbers of blob files, with the number of values that became unused.
    to_come : int
        The number of later edits in the same group. The edits of a group take effect together.
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
    """An edit has an unknown field that must not be skipped."""


def read_edits(data: bytes) -> Iterator[Edit]:
    """Iterate over the edits in their order. Edits of an incomplete group are omitted.

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
    """Iterate over the complete records of a log file. Their checksums are not checked.

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
        """Return a varint."""
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def text(self) -> bytes:
        """Return bytes whose length is stored before them."""
        size = self.number()
        end = self._at + size
        if end > len(self._data):
            raise IndexError("a record ends within a field")
        found = self._data[self._at : end]
        self._at = end
        return found

    def custom(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Iterate over tags with their content, up to the tag `end`."""
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
    """Return the number of a table file, and its description."""
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
    """Return the number of a blob file, and its description."""
    number, count, size = fields.number(), fields.number(), fields.number()
    fields.text()
    fields.text()  # name and value of its checksum
    list(fields.custom(_END_OF_BLOB))
    return number, Blob(size + _BLOB_ENDS, count)
