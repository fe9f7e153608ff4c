"""The live directory of a root: shards that a query writes in place.

::

    <root>/live/stream.json               the stream that writes here; see stream_binding
    <root>/live/stream.lock               locked while the stream runs
    <root>/live/0_<shard>/                the state directory of a shard
    <root>/live/<store>/map_state.json    the state of a map_state; see map_state.sharding
    <root>/live/<store>/query             the id of the streaming query that owns the state
    <root>/live/<store>/run-<n>           the newest batch run
    <root>/live/<store>/0_<shard>/

Readers use published versions, never this directory.
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
"""The number in each document of this layout. A reader refuses a greater one."""


@dataclass(frozen=True, slots=True)
class LiveLayout:
    """A directory of live shards: of a stream, or of one store of `map_state`."""

    path: Path

    @classmethod
    def of(cls, root: Path, store: str = "") -> LiveLayout:
        """Return the directory of the stream in a root, or of a store of `map_state`."""
        return cls(root / LIVE / store)

    def shard(self, number: int) -> Path:
        """Return the state directory of a shard, named as Kafka Streams names it."""
        return self.path / f"0_{number}"

    def document(self, name: str, fields: set[str], remedy: str) -> dict[str, Any] | None:
        """Read fields of a JSON document; None if there is no document.

        A StateError with ``remedy`` if it is damaged; a StateError if a newer kstore wrote it.
        """
        place = self.path / name
        try:
            document = json.loads(place.read_text(encoding="utf-8"))
            if document["format"] > LAYOUT_FORMAT:
                raise StateError(
                    f"{place} has the layout {document['format']}; this kstore reads up to "
                    f"{LAYOUT_FORMAT}. Upgrade kstore"
                )
            return {field: document[field] for field in fields}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{place} is damaged ({type(error).__name__}: {error}). {remedy}"
            ) from error


def differences(bound: Mapping[str, object], given: Mapping[str, object]) -> str:
    """Return the entries of ``given`` that differ from ``bound``, for a message; empty for none."""
    return "; ".join(
        f"{name} is {bound[name]!r} there and {value!r} here"
        for name, value in given.items()
        if bound[name] != value
    )


def write_durably(place: Path, text: str, put: Callable[[Path, Path], object] = os.rename) -> None:
    """Write a file that appears whole and survives a power cut.

    ``put`` replaces an existing file; ``os.link`` raises FileExistsError instead.
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
