"""The options of the engine, and the two on-disk formats of LMDB."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kstore_core.engine import EngineOptions
from kstore_core.errors import SpecError

__all__ = ["FORMATS", "LMDBFormat", "LMDBOptions"]


@dataclass(frozen=True, slots=True)
class LMDBFormat:
    """An on-disk format of LMDB. Each library of LMDB reads only one format.

    Attributes
    ----------
    name : str
        The release line of LMDB that writes it.
    library : int
        The number of the release line in the binding (``lib_version``).
    data_version : int
        The number in the file's meta pages.
    max_key_bytes : int
    """

    name: str
    library: int
    data_version: int
    max_key_bytes: int


FORMATS = {
    form.name: form for form in (LMDBFormat("0.9", 0, 1, 511), LMDBFormat("1.0", 1, 3, 1978))
}


_BOUNDS = {
    "map_size_bytes": (1 << 16, 1 << 47 if sys.maxsize > 1 << 32 else 1 << 31),
    "max_namespaces": (4, 1 << 16),
    "max_readers": (4, 1 << 20),
}


@dataclass(frozen=True)
class LMDBOptions(EngineOptions):
    """Options of one LMDB environment.

    Attributes
    ----------
    map_size_bytes : int
        The address space that is reserved for the file at open. It uses neither memory nor disk,
        and is doubled when the file has filled it.
    format_version : str
        ``"0.9"`` (keys of at most 511 bytes) or ``"1.0"`` (1978).
    max_namespaces : int
        The greatest number of namespaces of a store.
    max_readers : int
        The greatest number of read transactions (scans, snapshots, read-only handles) of all
        processes.
    """

    map_size_bytes: int = 1 << 40 if sys.maxsize > 1 << 32 else 1 << 30
    format_version: str = "0.9"
    max_namespaces: int = 64
    max_readers: int = 1022

    def __post_init__(self) -> None:
        if self.format_version not in FORMATS:
            raise SpecError(
                f"option 'format_version' must be one of {', '.join(map(repr, FORMATS))}, not "
                f"{self.format_version!r}"
            )
        for name, (least, most) in _BOUNDS.items():
            given = getattr(self, name)
            if not least <= given <= most:
                raise SpecError(
                    f"option {name!r} must be at least {least}, at most {most}, not {given}"
                )

    @property
    def format(self) -> LMDBFormat:
        """The on-disk format that ``format_version`` names."""
        return FORMATS[self.format_version]
