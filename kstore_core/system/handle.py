"""What is opened in one process, committed when it is left, and closed once."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from types import TracebackType
from typing import NoReturn, Self

from kstore_core.system.interrupts import uninterrupted

__all__ = ["Handle"]


class Handle:
    """Base of a handle: a context manager that warns when it is dropped open.

    Leaving ``with`` normally commits; leaving it by an exception does not. A fork of the process
    that opened it does neither, nor closes what is not its own.

    Attributes
    ----------
    read_only : bool
    """

    read_only: bool
    _instead: str
    _open = False
    _pid = -1

    def _is_open(self) -> None:
        """From now on there is something to close."""
        self._open = True
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, unless by an exception; then close."""
        with uninterrupted():  # or the close would be left out
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
            f"{self!r} is not pickled or copied: what is open belongs to this process. Pickle "
            f"{self._instead}, and open it there"
        )

    @abstractmethod
    def _check(self) -> None:
        """Refuse to be used once it is closed, or in a fork."""

    @abstractmethod
    def commit(self) -> object:
        """Commit what was written."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. A second close does nothing."""
