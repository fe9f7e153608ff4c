"""The check that the path of a root leads to the same directory on all machines.

The driver and the tasks write files, and read the files that the other side wrote. The files are
uploads of a job that is never published.
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
    """The check of a root by the driver and its tasks. Each task receives a copy.

    Attributes
    ----------
    root : Root
        The root to check.
    newest : int, optional
        The newest version that the driver sees, or None if it sees no version.
    job : str, optional
        The name of the job whose uploads are the files, or None if the check writes nothing.
    """

    root: Root
    newest: int | None
    job: str | None = None

    def from_a_task(self, slot: int) -> str | None:
        """Check the root on the machine of this task, and return the fault, or None."""
        if self.job is None:
            return self._without_the_newest()
        unseen = self._unread(_DRIVER)
        if unseen is not None:
            return f"a task cannot see the driver's file: {unseen}"
        try:
            self.write(str(slot))
        except (KStoreError, OSError) as error:
            return f"a task cannot write a file: {error}"
        return None

    def from_the_driver(self, slot: int) -> str | None:
        """Check on the driver that a task's file is visible, and return the fault, or None.

        Call this only for a task that reported no fault.
        """
        unread = None if self.job is None else self._unread(str(slot))
        return None if unread is None else f"the driver cannot see a task's file: {unread}"

    def write(self, writer: str = _DRIVER) -> None:
        """Write the file of ``writer``, which is the driver or the number of a task."""
        self.root.storage.put_new(self._place(writer), self._note(writer))

    def _unread(self, writer: str) -> str | None:
        """Read the file of ``writer``, and return the fault, or None if the file is as written."""
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
            return f"a task cannot read the root: {error}"
        if self.newest is None or self.newest in versions:
            return None
        return (
            f"a task cannot see version {self.newest}; it sees the versions: {versions or 'none'}"
        )

    def _place(self, writer: str) -> str:
        assert self.job is not None
        return f"{self.root.attempts(self.job)}/{writer}"

    def _note(self, writer: str) -> bytes:
        return f"written by check_cluster: {self.job}, {writer}\n".encode()


@contextmanager
def visiting(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, *, write: bool
) -> Iterator[Visit]:
    """Yield a check of a root, and remove the files of the check when the context ends.

    If ``write`` is true, the driver's file is written before.
    """
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
