"""The CRC-32C (Castagnoli) checksum of a record batch. The package google-crc32c computes it."""

from __future__ import annotations

from collections.abc import Callable

from kstore_core.errors import UnsupportedError
from kstore_core.hints import install

__all__ = ["crc32c"]

_compute: Callable[[bytes], int] | None = None


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of `data`, from 0 to 2**32 - 1.

    Raises
    ------
    UnsupportedError
        If google-crc32c is not installed.
    """
    if _compute is None:
        return _load()(data)
    return _compute(data)


def _load() -> Callable[[bytes], int]:
    global _compute
    try:
        from google_crc32c import value
    except ImportError as error:
        raise UnsupportedError(
            "the package google-crc32c, which computes the checksum of a record batch, is not "
            "installed: " + install("changelog")
        ) from error
    _compute = value
    return value  # type: ignore[no-any-return]
