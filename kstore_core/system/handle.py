"""The base of handles: context managers that commit at the end and close once."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from types import TracebackType
from typing import NoReturn

from kstore_core.system.interrupts import enter, uninterrupted

__all__ = ["Handle"]


class Handle:
    """Base of a handle: a context manager that warns when it is dropped open.

    Leaving ``with`` normally commits; leaving it by an exception does not. A forked child process
    neither commits nor closes a handle of its parent.

    Attributes
    ----------
    read_only : bool
    """

    read_only: bool
    _instead: str
    _open = False
    _pid = -1

    def _is_open(self) -> None:
        """Mark the handle as open, in this process."""
        self._open = True
        self._pid = os.getpid()

    __enter__ = enter

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, unless an exception was raised; then close."""
        with uninterrupted():  # or an interrupt could skip the close
            try:
                if kind is None and self._open and not self.read_only and self._pid == os.getpid():
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
            f"{self!r} cannot be pickled or copied: an open handle belongs to its process. Pickle "
            f"{self._instead}, and open it there"
        )

    @abstractmethod
    def _check(self) -> None:
        """Raise if the handle is closed or was inherited by a fork."""

    @abstractmethod
    def commit(self) -> object:
        """Commit what was written."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. A second close does nothing."""
