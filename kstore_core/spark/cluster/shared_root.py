"""The check that a root is the same place for all machines: one writes files, another reads them.

The files are attempts of a job that is never published.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kstore_core.errors import KStoreError
from kstore_core.spark.root.root import Root

__all__ = ["Visit", "visiting"]

_DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class Visit:
    """A check of a root by the driver and its tasks; tasks receive a copy."""

    root: Root
    newest: int | None  # the version that the driver sees
    job: str | None = None  # of the files; None if the check writes nothing

    def from_a_task(self, slot: int) -> str | None:
        """Return the fault of the root on this task's machine; None for none."""
        if self.job is None:
            return self._without_the_newest()
        unseen = self._unread(_DRIVER)
        if unseen is not None:
            return f"the driver's file is not visible: {unseen}"
        try:
            self.write(str(slot))
        except (KStoreError, OSError) as error:
            return f"no file can be written: {error}"
        return None

    def from_the_driver(self, slot: int) -> str | None:
        """Return the fault of the file of a task that reported no fault; None for none."""
        unread = None if self.job is None else self._unread(str(slot))
        return None if unread is None else f"a task's file is not visible to the driver: {unread}"

    def write(self, writer: str = _DRIVER) -> None:
        """Write the file of the driver or of a task."""
        self.root.storage.put_new(self._place(writer), self._note(writer))

    def _unread(self, writer: str) -> str | None:
        """Return the fault of the file of the driver or of a task; None for none."""
        try:
            found = self.root.storage.read(self._place(writer))
        except (KStoreError, OSError) as error:
            return str(error)
        return (
            None
            if found == self._note(writer)
            else f"{self._place(writer)} contains {found[:80]!r}"
        )

    def _without_the_newest(self) -> str | None:
        try:
            versions = self.root.versions()
        except (KStoreError, OSError) as error:
            return f"it cannot be read: {error}"
        if self.newest is None or self.newest in versions:
            return None
        return f"version {self.newest} is missing; the versions are: {versions or 'none'}"

    def _place(self, writer: str) -> str:
        assert self.job is not None
        return f"{self.root.attempts(self.job)}/{writer}"

    def _note(self, writer: str) -> bytes:
        return f"written by check_cluster: {self.job}, {writer}\n".encode()


@contextmanager
def visiting(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, *, write: bool
) -> Iterator[Visit]:
    """Write the driver's file for a block; all files of the check are removed afterwards."""
    at = Root.at(root, storage_options)
    newest = max(at.versions(), default=None)
    if not write:
        yield Visit(at, newest)
        return
    visit = Visit(at, newest, uuid.uuid4().hex)
    assert visit.job is not None
    at.begin(visit.job)
    try:
        visit.write()
        yield visit
    finally:
        at.discard(visit.job)
