"""The methods that storages of files at an address have in common."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["RemoteFiles"]


@dataclass(frozen=True, slots=True)
class RemoteFiles(ABC):
    """The base class of storages that a library reads and writes over the network.

    Attributes
    ----------
    address : str
        The address of the root, without a slash at the end.
    options : mapping
        Options of the library. A repr does not show the options, because they may contain secrets.
    """

    address: str
    options: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def name(self) -> str:
        return self.address

    @property
    def path(self) -> None:
        return None

    def digest(self, name: str) -> tuple[int, str]:
        found, size = hashlib.sha256(), 0
        with self._translating_errors():
            for piece in self._pieces(name):
                found.update(piece)
                size += len(piece)
        return size, found.hexdigest()

    def reuse(self, old: str, new: str) -> str:
        return old

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        def get(entry: tuple[str, Path]) -> None:
            with entry[1].open("wb") as file:
                for piece in self._pieces(entry[0]):
                    file.write(piece)

        self._all(get, files.items())

    @abstractmethod
    def _pieces(self, name: str) -> Iterator[Any]:
        """Return the content of a file in pieces of bytes."""

    @abstractmethod
    def _all(self, call: Callable[[Any], None], things: Iterable[Any]) -> None:
        """Call a function for all things in threads."""

    @abstractmethod
    def _translating_errors(self) -> AbstractContextManager[None]:
        """Translate the errors of the library into those that `Storage` describes."""
