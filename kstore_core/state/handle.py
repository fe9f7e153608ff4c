"""A handle on a state directory: used within one process, until it is closed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from kstore_core.errors import ForkedHandleError, StoreClosedError
from kstore_core.system.handle import Handle

__all__ = ["Held", "StateHandle"]


class Held(Protocol):
    """The resources that a state directory releases when it is closed."""

    def release(self) -> None:
        """Release it. A second release does nothing."""


class StateHandle(Handle):
    """Base of a state directory.

    Attributes
    ----------
    path : Path
    """

    path: Path
    _instead = "its path, and the specs of its stores"

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the state directory {self.path} has been closed")
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"{self.path} was opened by process {self._pid} and is used in {os.getpid()}, a "
                "fork of it; open the state directory in the process that uses it"
            )
