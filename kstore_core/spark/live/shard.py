"""The shard of a state that one task has checked out to change it."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kstore_core.engine import Engine
from kstore_core.spark.live.epochs import Epoch

__all__ = ["InPlace", "LiveShard"]


class LiveShard(Protocol):
    """A shard that one task changes. The task opens the state directory, commits and closes it.

    Attributes
    ----------
    path : Path
        The state directory on this machine.
    engine : str or Engine
        The argument ``engine`` with which the task must open the directory.
    where : str
        The path or the address of the shard, for messages.
    is_shared : bool
        True if other machines see changes of the directory at once.
    """

    @property
    def path(self) -> Path: ...
    @property
    def engine(self) -> str | Engine: ...
    @property
    def where(self) -> str: ...
    @property
    def is_shared(self) -> bool: ...

    @property
    def is_new(self) -> bool:
        """True if nothing was written to the shard.

        Raises FileNotFoundError if the directory of a shard on a disk is missing.
        """

    def fill(self, published: Path) -> None:
        """Copy a published shard from the directory ``published`` to the new shard."""

    def commit(self, epoch: Epoch) -> bool:
        """Make the changes visible to other machines. The state directory must be closed.

        Return False if another attempt of the same epoch was faster. In this case the changes of
        this attempt have no effect, and a new checkout contains the epoch. Raises StateError if
        another epoch was committed at the same time.
        """


@dataclass(frozen=True, slots=True)
class InPlace:
    """A shard on a disk that all tasks share, so a commit of the directory is already visible."""

    path: Path
    engine: str
    is_shared: bool = True

    @property
    def where(self) -> str:
        """The path of the shard."""
        return str(self.path)

    @property
    def is_new(self) -> bool:
        """True if the directory is empty."""
        return not any(self.path.iterdir())

    def fill(self, published: Path) -> None:
        """Copy a published shard to the empty directory.

        If another attempt of the task has already filled the directory, do not change the
        directory.
        """
        scratch = self.path.with_name(f".{self.path.name}-{uuid.uuid4().hex}")
        try:
            shutil.copytree(published, scratch)
            scratch.rename(self.path)
        except OSError:
            if self.is_new:
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def commit(self, epoch: Epoch) -> bool:
        """Return True, because the changes are visible already."""
        return True
