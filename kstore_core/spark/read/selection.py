"""The selection of the records of a store by time and by key."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.codec import Headers
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.types import Time, to_millis

if TYPE_CHECKING:
    from kstore_core.spec import StoreSpec

__all__ = ["Selection", "key_bytes", "keys_of", "prefix_bytes", "select"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The records to read.

    By default a read returns all records. From a versioned store, it returns the latest version of
    each key.

    Attributes
    ----------
    as_of : int, optional
        Read the versions that were valid at this time in ms.
    history : bool
        Read all versions, or those that were valid at some time from ``from_ts`` to ``to_ts``.
    from_ts, to_ts : int, optional
        The bounds of a range of time in ms, both inclusive; no bound if None. Read only versions,
        windows or sessions that overlap the range.
    keys : tuple of bytes, optional
        The serialised keys to read, sorted and distinct; all keys if None.
    prefix : bytes, optional
        The first bytes of the serialised keys to read.
    """

    as_of: int | None = None
    history: bool = False
    from_ts: int | None = None
    to_ts: int | None = None
    keys: tuple[bytes, ...] | None = None
    prefix: bytes | None = None


def select(
    spec: StoreSpec,
    as_of: Time | None = None,
    history: bool = False,
    from_ts: Time | None = None,
    to_ts: Time | None = None,
    keys: Iterable[bytes] | None = None,
    prefix: bytes | None = None,
) -> Selection:
    """Check the options that select records, and return the selection.

    The options and errors are those of :func:`read_store`, but the caller must pass serialised keys
    or a serialised prefix.
    """
    if as_of is not None and history:
        raise SpecError("as_of and history exclude each other; pass only one of them")
    if keys is not None and prefix is not None:
        raise SpecError("keys and prefix exclude each other; pass only one of them")
    between = from_ts is not None or to_ts is not None
    if not spec.format.versioned and (as_of is not None or history):
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which has no history; "
            "read the store without as_of and history"
        )
    if spec.format.versioned and between and not history:
        raise SpecError(
            "from_ts and to_ts (for the data source, the options from and to) need history=True "
            "for a versioned store; pass history=True, or pass as_of for one time"
        )
    if spec.shape == "key_value" and between:
        raise UnsupportedError(
            f"from_ts and to_ts select windows, sessions and versions, but {spec.name!r} is a "
            "key-value store; read the store without from_ts and to_ts, and filter the DataFrame"
        )
    first, last = _millis(from_ts), _millis(to_ts)
    if first is not None and last is not None and first > last:
        raise SpecError(f"from_ts={from_ts} is after to_ts={to_ts}; swap the two times")
    chosen = None if keys is None else tuple(sorted(set(keys)))
    return Selection(_millis(as_of), history, first, last, chosen, prefix)


def _millis(time: Time | None) -> int | None:
    return None if time is None else to_millis(time)


def key_bytes(spec: StoreSpec, key: Any) -> bytes:
    """Serialise a key with the store's key serde.

    Raise a SpecError if the key is None, or if the serde cannot serialise the key.
    """
    try:
        raw = None if key is None else spec.key.serialize(key, Headers())
    except Exception as error:
        raise SpecError(
            f"{key!r} is not a key of the store {spec.name!r}, whose key serde is "
            f"{spec.key.name!r}: {error}"
        ) from error
    if raw is None:
        raise SpecError(
            f"{key!r} is not a key of the store {spec.name!r}, because a key must not be null"
        )
    return raw


def prefix_bytes(prefix: str | bytes | None) -> bytes | None:
    """Return the prefix of serialised keys as bytes. A str is encoded as UTF-8."""
    if not isinstance(prefix, str | bytes | None):
        raise TypeError(
            f"prefix={prefix!r} is {type(prefix).__name__}, not bytes or str; pass the first bytes "
            "of the serialised keys, or for keys of type str their first characters"
        )
    return prefix.encode() if isinstance(prefix, str) else prefix


def keys_of(spec: StoreSpec, key: Any, keys: Iterable[Any] | None) -> list[bytes] | None:
    """Serialise ``key`` or ``keys``, and return a list; return None if both are None.

    Raise a ValueError if both are given, and a TypeError if ``keys`` is a single key.
    """
    if key is not None and keys is not None:
        raise ValueError("key and keys exclude each other; pass only one of them")
    if key is not None:
        return [key_bytes(spec, key)]
    if keys is None:
        return None
    if isinstance(keys, (str, bytes, os.PathLike)):
        raise TypeError(f"keys={keys!r} is a single key; pass it as key=, or pass a list of keys")
    return [key_bytes(spec, one) for one in keys]
