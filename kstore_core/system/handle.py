"""The base class of handles, which are context managers that commit and close at their end."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from typing import NoReturn

from kstore_core.system.interrupts import enter, leave

__all__ = ["Handle"]


class Handle:
    """The base class of handles. A handle is a context manager.

    At the normal end of a ``with`` block the handle commits and closes. If the block raises an
    exception, the handle closes without a commit. If an open handle is garbage-collected, it closes
    and issues a warning. A forked child neither commits nor closes a handle of its parent.

    Attributes
    ----------
    read_only : bool
        True if the handle cannot write.
    """

    read_only: bool
    _instead: str
    _open = False
    _pid = -1

    def _is_open(self) -> None:
        """Set the state of the handle to open, with this process as its owner."""
        self._open = True
        self._pid = os.getpid()

    __enter__ = enter
    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        """Commit if no exception was raised, and close in any case."""
        try:
            if normally and self._open and not self.read_only and self._pid == os.getpid():
                self.commit()
        finally:
            self.close()

    def __del__(self) -> None:
        if self._open and self._pid == os.getpid():
            try:
                warnings.warn(
                    f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=1
                )
            finally:
                self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled or copied, because an open handle belongs to one process. "
            f"Pickle {self._instead}, and open a new handle in the other process"
        )

    @abstractmethod
    def _check(self) -> None:
        """Raise an error if the handle is closed, or belongs to the parent of this fork."""

    @abstractmethod
    def commit(self) -> object:
        """Commit all writes since the last commit."""

    @abstractmethod
    def close(self) -> None:
        """Close the handle and release its resources. A second close does nothing."""
