"""The live directory of a root, which has the shards that a query changes in place.

::

    <root>/live/stream.json               the stream that owns the live directory
    <root>/live/stream.lock               locked while the stream runs
    <root>/live/0_<shard>/                the state directory of a shard of the stream
    <root>/live/<store>/map_state.json    the properties of a state of map_state
    <root>/live/<store>/query             the id of the streaming query that owns the state
    <root>/live/<store>/run-<n>           the number of the newest batch run
    <root>/live/<store>/0_<shard>/        the state directory of a shard of map_state

Readers never use this directory; they read published versions.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore_core.errors import StateError
from kstore_core.system.directories import sync_directory

__all__ = ["LAYOUT_FORMAT", "LIVE", "LiveLayout", "differences", "write_durably"]

LIVE = "live"
LAYOUT_FORMAT = 1
"""The format number in each JSON file of this layout. A reader refuses a greater number."""


@dataclass(frozen=True, slots=True)
class LiveLayout:
    """The directory that has the live shards of a stream, or of one store of `map_state`."""

    path: Path

    @classmethod
    def of(cls, root: Path, store: str = "") -> LiveLayout:
        """Return the live directory of a store of `map_state`, or by default of the stream."""
        return cls(root / LIVE / store)

    def shard(self, number: int) -> Path:
        """Return the state directory of a shard; its name is that of a Kafka Streams task."""
        return self.path / f"0_{number}"

    def document(self, name: str, fields: set[str], remedy: str) -> dict[str, Any] | None:
        """Read fields of a JSON file in this directory; return None if the file does not exist.

        Raises StateError if the file is damaged or a newer kstore wrote it. The error about a
        damaged file ends in the text ``remedy``.
        """
        place = self.path / name
        try:
            document = json.loads(place.read_text(encoding="utf-8"))
            if document["format"] > LAYOUT_FORMAT:
                raise StateError(
                    f"{place} has the layout format {document['format']}, but this kstore reads "
                    f"only formats up to {LAYOUT_FORMAT}. Upgrade kstore"
                )
            return {field: document[field] for field in fields}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{place} is damaged ({type(error).__name__}: {error}). {remedy}"
            ) from error


def differences(bound: Mapping[str, object], given: Mapping[str, object]) -> str:
    """Describe the entries of ``given`` that differ from ``bound``, for an error.

    Returns an empty text if no entry differs.
    """
    return "; ".join(
        f"{name} is stored as {bound[name]!r} and given as {value!r}"
        for name, value in given.items()
        if bound[name] != value
    )


def write_durably(place: Path, text: str, put: Callable[[Path, Path], object] = os.rename) -> None:
    """Write a file atomically, so that it also survives a power cut.

    ``put`` moves the complete file to ``place``. The default replaces an existing file. With
    ``os.link`` the call raises FileExistsError if the file exists.
    """
    scratch = place.with_name(f".{place.name}-{uuid.uuid4().hex}.tmp")
    try:
        with scratch.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        put(scratch, place)
    finally:
        scratch.unlink(missing_ok=True)
    sync_directory(place.parent)
