"""The import of a package's public names at their first use, so that a process starts quickly.

A process that opens a store needs neither the queries nor a client of Kafka.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazily"]


def lazily(
    package: str, homes: Mapping[str, str | None]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    homes : mapping
        The public names of the package. The value is the module that defines the name, relative
        to ``kstore_core``, or None if the name is that of a module of the package.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home is None:
            return import_module(f"{package}.{name}")
        found: object = getattr(import_module(f"kstore_core.{home}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
