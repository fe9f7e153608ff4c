"""The engine's options, and what the two formats of LMDB hold."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kstore_core.engine import EngineOptions
from kstore_core.errors import SpecError

__all__ = ["FORMATS", "LMDBFormat", "LMDBOptions"]


@dataclass(frozen=True, slots=True)
class LMDBFormat:
    """One on-disk format; none of them is read by the library of another.

    Attributes
    ----------
    name : str
        The release line of LMDB that writes it.
    library : int
        What the binding calls that line (``lib_version``).
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
        Address space reserved for the file at open. It takes neither memory nor disk, and doubles
        when the file has filled it.
    format_version : str
        ``"0.9"`` (keys of at most 511 bytes) or ``"1.0"`` (1978).
    max_namespaces : int
        Namespaces that a store can have.
    max_readers : int
        Read transactions (scans, snapshots, read-only handles) of all processes together.
    """

    map_size_bytes: int = 1 << 40 if sys.maxsize > 1 << 32 else 1 << 30
    format_version: str = "0.9"
    max_namespaces: int = 64
    max_readers: int = 1022

    def __post_init__(self) -> None:
        if self.format_version not in FORMATS:
            raise SpecError(
                f"option 'format_version' is one of {', '.join(map(repr, FORMATS))}, not "
                f"{self.format_version!r}"
            )
        for name, (least, most) in _BOUNDS.items():
            given = getattr(self, name)
            if not least <= given <= most:
                raise SpecError(f"option {name!r} is at least {least}, at most {most}, not {given}")

    @property
    def format(self) -> LMDBFormat:
        """The format that ``format_version`` names."""
        return FORMATS[self.format_version]
