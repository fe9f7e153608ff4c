"""The selection of a store's records, by time and by key."""

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
    """The records to read: by default all, of a versioned store the latest versions."""

    as_of: int | None = None  # versions valid at this time, ms
    history: bool = False  # all versions, or those valid at some time in [from_ts, to_ts]
    from_ts: int | None = (
        None  # ms, inclusive: versions, windows or sessions that overlap the range
    )
    to_ts: int | None = None
    keys: tuple[bytes, ...] | None = None  # serialised, sorted and distinct
    prefix: bytes | None = None  # of serialised keys


def select(
    spec: StoreSpec,
    as_of: Time | None = None,
    history: bool = False,
    from_ts: Time | None = None,
    to_ts: Time | None = None,
    keys: Iterable[bytes] | None = None,
    prefix: bytes | None = None,
) -> Selection:
    """Check a selection against the store; the errors are those of :func:`read_store`."""
    if as_of is not None and history:
        raise SpecError("as_of and history exclude each other; pass one")
    if keys is not None and prefix is not None:
        raise SpecError("keys and prefix exclude each other; pass one")
    between = from_ts is not None or to_ts is not None
    if not spec.format.versioned and (as_of is not None or history):
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which has no history; "
            "read it without as_of and history"
        )
    if spec.format.versioned and between and not history:
        raise SpecError("from_ts and to_ts (the options from and to) need history=True")
    if spec.shape == "key_value" and between:
        raise UnsupportedError(
            f"the records of the key-value store {spec.name!r} have no range of time; read it "
            "without from_ts and to_ts, and filter the DataFrame"
        )
    first, last = _millis(from_ts), _millis(to_ts)
    if first is not None and last is not None and first > last:
        raise SpecError(f"from_ts={from_ts} is after to_ts={to_ts}; swap them")
    chosen = None if keys is None else tuple(sorted(set(keys)))
    return Selection(_millis(as_of), history, first, last, chosen, prefix)


def _millis(time: Time | None) -> int | None:
    return None if time is None else to_millis(time)


def key_bytes(spec: StoreSpec, key: Any) -> bytes:
    """Serialise a key with the store's serde; a SpecError if the serde does not take it."""
    try:
        raw = None if key is None else spec.key.serialize(key, Headers())
    except Exception as error:
        raise SpecError(
            f"{key!r} is not a key of the store {spec.name!r}, whose serde is {spec.key.name!r}: "
            f"{error}"
        ) from error
    if raw is None:
        raise SpecError(f"{key!r} is not a key of the store {spec.name!r}: keys are never null")
    return raw


def prefix_bytes(prefix: str | bytes | None) -> bytes | None:
    """Return the prefix of serialised keys; text is encoded as UTF-8."""
    if not isinstance(prefix, str | bytes | None):
        raise TypeError(
            f"prefix={prefix!r} is {type(prefix).__name__}; pass the first bytes of serialised "
            "keys, or the beginning of keys that are text"
        )
    return prefix.encode() if isinstance(prefix, str) else prefix


def keys_of(spec: StoreSpec, key: Any, keys: Iterable[Any] | None) -> list[bytes] | None:
    """Return the serialised keys of ``key`` or ``keys``; None if neither is given."""
    if key is not None and keys is not None:
        raise ValueError("key and keys exclude each other; pass one")
    if key is not None:
        return [key_bytes(spec, key)]
    if keys is None:
        return None
    if isinstance(keys, (str, bytes, os.PathLike)):
        raise TypeError(f"keys={keys!r} is one key; pass key=, or a list of keys")
    return [key_bytes(spec, one) for one in keys]
