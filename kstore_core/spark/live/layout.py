"""The live directory of a root, which contains the shards that a query changes in place.

::

    <root>/live/stream.json               the stream that owns the live directory
    <root>/live/stream.lock               the file that the stream locks
    <root>/live/0_<shard>/                the state directory of a shard of the stream
    <root>/live/<store>/map_state.json    the properties of a state of map_state
    <root>/live/<store>/query             the id of the streaming query that owns the state
    <root>/live/<store>/run-<n>           the number of the newest batch run
    <root>/live/<store>/0_<shard>/        the state directory of a shard of map_state
    <root>/live/<store>/rescaled-<n>/     the state directories of the shards after a rescale

Reads of the root never use this directory, because they read published versions.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kstore_core.checks import check_layout
from kstore_core.errors import InconsistentStateError, StateError
from kstore_core.spark.live.shard import InPlace, LiveShard
from kstore_core.system.directories import sync_directory

__all__ = [
    "LAYOUT_FORMAT",
    "LIVE",
    "NEWEST_FORMAT",
    "Layout",
    "LiveLayout",
    "differences",
    "parsed_document",
    "write_durably",
]

LIVE = "live"
LAYOUT_FORMAT = 1
"""The format number in each JSON file of the live directory."""

NEWEST_FORMAT = 2
"""The format number of a rescaled state of map_state. kstore refuses files of newer formats."""


class Layout(Protocol):
    """The live directory of a state, with the shards and the files that describe the state.

    :class:`LiveLayout` implements the protocol on a disk, and
    :class:`~kstore_core.spark.remote.layout.RemoteLayout` on an object store. ``str(layout)`` is
    the path or the address of the directory.
    """

    @property
    def unseen(self) -> str:
        """The likely cause, and the remedy, if a task and the driver see different states."""

    def prepare(self, shards: int) -> None:
        """Prepare the directory for a new state with this number of shards.

        Raises UnsupportedError if the server ignores the condition that a file must be new.
        """

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if the file does not exist."""

    def create(self, name: str, text: str) -> bool:
        """Create a file durably. Return False, and change nothing, if the file exists."""

    def names(self) -> list[str]:
        """Return the names of the entries of the directory."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files. A name without a file is skipped."""

    def is_written(self, shard: int) -> bool:
        """Return True if something was written to a shard of a stream.

        Raises FileNotFoundError if the root is on a disk and the shard's directory is missing.
        """

    def checkout(
        self,
        identity: str,
        folder: str,
        shard: int,
        engine: str,
        timeout_s: float,
        number: int = 0,
    ) -> AbstractContextManager[LiveShard]:
        """Return a context manager of a shard that one task changes.

        ``identity`` is the unique id of the state, and ``folder`` the folder of its shards.
        ``number`` is the number of the document of the state; ``document_name`` in
        :mod:`kstore_core.spark.map_state.sharding` explains it. The task waits up to ``timeout_s``
        seconds for a shard that another task has locked.

        Raises StateError if a rescale has sealed the shard, so that only tasks that read a later
        document can commit.
        """


@dataclass(frozen=True, slots=True)
class LiveLayout:
    """The directory with the live shards of a stream, or of one store of `map_state`."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def of(cls, root: Path, store: str = "") -> LiveLayout:
        """Return the live directory of a store of `map_state`.

        If ``store`` is empty, return the live directory of the stream that owns the root.
        """
        return cls(root / LIVE / store)

    def shard(self, number: int) -> Path:
        """Return the state directory of a shard. Its name is like that of a Kafka Streams task."""
        return self.path / f"0_{number}"

    def within(self, folder: str) -> LiveLayout:
        """Return the live directory in ``folder``, or this directory if ``folder`` is empty."""
        return LiveLayout(self.path / folder)

    @property
    def unseen(self) -> str:
        """The likely cause, and the remedy, if a task and the driver see different states."""
        return (
            "If the state was rescaled after map_state was called, call map_state again, for a "
            "stream with the same checkpoint. If the state was not rescaled, pass a root on a file "
            "system that all machines share and mount at the same path, or on an object store"
        )

    def prepare(self, shards: int) -> None:
        """Make the directories of the shards."""
        for number in range(shards):
            self.shard(number).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if the file does not exist."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create(self, name: str, text: str) -> bool:
        """Create a file durably. Return False, and change nothing, if the file exists.

        Raises StateError if the directory cannot be created or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if (self.path / name).exists():
                return False
            write_durably(self.path / name, text, os.link)
        except FileExistsError:
            if self.path.is_dir():
                return False
            raise self._unwritable("Not a directory") from None
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        return True

    def _unwritable(self, why: str) -> StateError:
        return StateError(
            f"the directory {self.path} cannot be created or written: {why}. Correct the cause, or "
            "pass another root"
        )

    def names(self) -> list[str]:
        """Return the names of the entries of the directory."""
        return [entry.name for entry in self.path.iterdir()]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files. A name without a file is skipped."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def is_written(self, shard: int) -> bool:
        """Return True if the directory of a shard is not empty."""
        return any(self.shard(shard).iterdir())

    @contextmanager
    def checkout(
        self,
        identity: str,
        folder: str,
        shard: int,
        engine: str,
        timeout_s: float,
        number: int = 0,
    ) -> Iterator[LiveShard]:
        """Return a context manager of a shard, which the caller changes in place.

        The caller must lock the state directory of the shard, so ``timeout_s`` has no effect here.
        """
        yield InPlace(self.within(folder).shard(shard), engine)


def parsed_document(
    layout: Layout,
    name: str,
    fields: set[str],
    remedy: str,
    optional: Mapping[str, object] | None = None,
) -> dict[str, Any] | None:
    """Read the fields ``fields`` of the JSON file ``name`` of a layout.

    ``optional`` maps the names of further fields to their values in a file that lacks them.

    Return None if the file does not exist. Raises InconsistentStateError, whose message ends with
    ``remedy``, if the file is damaged. Raises StateError if a newer kstore wrote the file.
    """
    place = f"{layout}/{name}"
    try:
        text = layout.read(name)
        if text is None:
            return None
        document = json.loads(text)
        check_layout(document["format"], NEWEST_FORMAT, place)
        document = {**(optional or {}), **document}
        return {field: document[field] for field in {*fields, *(optional or {})}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InconsistentStateError(
            f"{place} is damaged ({type(error).__name__}: {error}). {remedy}"
        ) from error


def differences(bound: Mapping[str, object], given: Mapping[str, object]) -> str:
    """Return the part of an error message that names the differing entries of two mappings.

    ``bound`` contains the stored values, and ``given`` those of the caller. The text is empty if no
    entry differs.
    """
    return "; ".join(
        f"{name} is stored as {bound[name]!r} and given as {value!r}"
        for name, value in given.items()
        if bound[name] != value
    )


def write_durably(place: Path, text: str, put: Callable[[Path, Path], object] = os.rename) -> None:
    """Write a file atomically, and sync the file and its directory to the disk.

    ``put`` moves the complete file to ``place``. With the default ``os.rename``, the file replaces
    an existing file. With ``os.link``, FileExistsError is raised if a file exists at ``place``.
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
