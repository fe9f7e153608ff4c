"""The check that the path of a root leads to the same directory on all machines.

The driver writes a file, which each task reads. Each task writes a file, which the driver reads.
The files are uploads of a job that is never published.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.errors import KStoreError
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import on_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Visit", "visiting"]

_DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class Visit:
    """The check of a root by the driver and the tasks. Each task receives a copy of this object.

    Attributes
    ----------
    root : Root
        The root to check.
    newest : int, optional
        The newest version that the driver sees, or None if it sees no version.
    job : str, optional
        The name of the job that owns the files of the check, or None if the check writes nothing.
    """

    root: Root
    newest: int | None
    job: str | None = None

    def from_a_task(self, slot: int) -> str | None:
        """Check the root on the machine of a task.

        Return a text about the fault, or None if the task can use the root. ``slot`` is the number
        of the task.
        """
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
        """Check on the driver that the file of a task can be read.

        Return a text about the fault, or None if the driver can read the file. ``slot`` is the
        number of the task. Call this method only for a task whose :meth:`from_a_task` returned
        None.
        """
        unread = None if self.job is None else self._unread(str(slot))
        return None if unread is None else f"the driver cannot see a task's file: {unread}"

    def all_from_the_driver(self, slots: Iterable[int]) -> dict[int, str | None]:
        """Return the result of :meth:`from_the_driver` for each of several tasks."""
        return {slot: self.from_the_driver(slot) for slot in slots}

    def write(self, writer: str = _DRIVER) -> None:
        """Write the driver's file, or the file of the task with the number ``writer``."""
        self.root.storage.put_new(self._place(writer), self._note(writer))

    def _unread(self, writer: str) -> str | None:
        """Read the file of ``writer``, and return a text about the fault, or None."""
        try:
            found = self.root.storage.read(self._place(writer))
        except (KStoreError, OSError) as error:
            return str(error)
        return (
            None
            if found == self._note(writer)
            else f"{self._place(writer)} contains {found[:80]!r}, not {self._note(writer)!r}"
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
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    *,
    write: bool,
    spark: SparkSession | None = None,
) -> Iterator[Visit]:
    """Return a context manager that yields a Visit, which checks a root.

    If ``write`` is true, the context manager writes the driver's file at its start, and removes all
    files of the check at its end. With a session ``spark`` of Spark Connect, a task on the cluster
    writes and removes the files.
    """
    job = uuid.uuid4().hex if write else None
    visit = on_server(spark, _begin, root, storage_options, job)
    try:
        yield visit
    finally:
        if job is not None:
            on_server(spark, visit.root.discard, job)


def _begin(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, job: str | None
) -> Visit:
    """Return the Visit of a check. If ``job`` is not None, write the driver's file."""
    at = Root.at(root, storage_options)
    visit = Visit(at, max(at.versions(), default=None), job)
    if job is not None:
        at.begin(job)
        try:
            visit.write()
        except FileExistsError:  # an earlier attempt of this task wrote the file
            pass
        except BaseException:
            at.discard(job)
            raise
    return visit
