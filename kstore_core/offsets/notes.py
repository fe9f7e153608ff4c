"""Notes, which are small values that a program commits together with a store's rows.

Use a note for a value that must match the rows after a crash, such as the id of the last batch in
the rows. The offsets namespace stores each note under its name. Kafka Streams ignores notes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["NOTE", "check_notes", "note_entries", "note_name"]

NOTE = b"kstore.note."
"""The prefix of the keys of notes in the offsets namespace."""

_NAME = re.compile(r"[a-z][a-z_]{0,63}")


def note_name(key: bytes) -> str | None:
    """Return the name of the note whose entry has this key, or None if the entry is not a note."""
    return key[len(NOTE) :].decode(errors="replace") if key.startswith(NOTE) else None


def note_entries(notes: Mapping[str, bytes | None]) -> dict[bytes, bytes | None]:
    """Return the entries that store the notes. A note of None removes its entry."""
    return {NOTE + name.encode(): note for name, note in notes.items()}


def check_notes(notes: Mapping[str, bytes | None] | None) -> None:
    """Raise TypeError or ValueError if notes are not valid."""
    if notes is None:
        return
    if not isinstance(notes, Mapping):
        raise TypeError(f"notes must be a mapping of names to bytes, not {type(notes).__name__}")
    for name, note in notes.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a note must be a str, not {type(name).__name__}")
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a valid name of a note: it must have 1 to 64 characters a to z "
                "and _, and must begin with a letter"
            )
        if note is not None and not isinstance(note, bytes):
            raise TypeError(f"the note {name!r} must be bytes, not {type(note).__name__}")
