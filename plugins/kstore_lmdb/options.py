"""The options of the LMDB engine, and the two formats of LMDB files."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kstore_core.engine import EngineOptions
from kstore_core.errors import SpecError

__all__ = ["FORMATS", "LMDBFormat", "LMDBOptions"]


@dataclass(frozen=True, slots=True)
class LMDBFormat:
    """A format of LMDB files. Each version of the LMDB library reads only one format.

    Attributes
    ----------
    name : str
        The version of LMDB that writes the format, such as ``"0.9"``.
    library : int
        The argument ``lib_version`` of ``lmdb.Environment`` that selects this version of LMDB.
    data_version : int
        The number of the format in the meta pages of a file.
    max_key_bytes : int
        The size of the longest key that the format allows, in bytes.
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
    """The options of LMDB environments.

    Attributes
    ----------
    map_size_bytes : int
        The address space that an open reserves for the file. This space uses neither memory nor
        disk. kstore enlarges the space when the file has filled it.
    format_version : str
        The format of new environments: ``"0.9"`` for keys of at most 511 bytes, or ``"1.0"`` for
        keys of at most 1978 bytes.
    max_namespaces : int
        The greatest number of namespaces that a store can have.
    max_readers : int
        The greatest number of read transactions that all processes together can have open. Scans,
        snapshots and read-only handles use read transactions.
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
                    f"option {name!r} must be at least {least} and at most {most}, not {given}"
                )

    @property
    def format(self) -> LMDBFormat:
        """The :class:`LMDBFormat` with the name ``format_version``."""
        return FORMATS[self.format_version]
