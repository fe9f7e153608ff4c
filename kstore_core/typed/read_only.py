"""The protocols of window and session stores for code that only reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from kstore_core.types import AggregationWithHeaders, Time, Windowed

__all__ = ["ReadOnlySessionStore", "ReadOnlySessionStoreWithHeaders", "ReadOnlyWindowStore"]

K = TypeVar("K")
V_co = TypeVar("V_co", covariant=True)
A_co = TypeVar("A_co", covariant=True)


@runtime_checkable
class ReadOnlyWindowStore(Protocol[K, V_co]):
    """The read methods of a window store; see :class:`kstore_core.typed.WindowStore`."""

    def fetch_one(self, key: K, window_start: Time, /) -> V_co | None: ...

    def fetch(
        self, key: K, from_ts: Time | None, to_ts: Time | None, /, *, reverse: bool = False
    ) -> Iterator[tuple[int, V_co]]: ...

    def fetch_range(
        self,
        key_from: K | None,
        key_to: K | None,
        from_ts: Time | None,
        to_ts: Time | None,
        /,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...

    def fetch_all(
        self, from_ts: Time | None, to_ts: Time | None, /, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V_co]]: ...


@runtime_checkable
class ReadOnlySessionStore(Protocol[K, A_co]):
    """The read methods of a session store; see :class:`kstore_core.typed.SessionStore`."""

    def fetch_session(self, key: K, start: Time, end: Time, /) -> A_co | None: ...

    def find_sessions(
        self,
        key: K,
        earliest_end: Time | None,
        latest_start: Time | None,
        /,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Windowed[K], A_co]]: ...

    def find_sessions_range(
        self,
        key_from: K | None,
        key_to: K | None,
        earliest_end: Time | None,
        latest_start: Time | None,
        /,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Windowed[K], A_co]]: ...

    def find_sessions_between(
        self, earliest_end: Time | None, latest_end: Time | None, /, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], A_co]]: ...

    def fetch(self, key: K, /, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], A_co]]: ...

    def fetch_range(
        self, key_from: K | None, key_to: K | None, /, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], A_co]]: ...


ReadOnlySessionStoreWithHeaders: TypeAlias = ReadOnlySessionStore[K, AggregationWithHeaders[A_co]]
"""The read methods of a session store with headers (KIP-1271)."""
