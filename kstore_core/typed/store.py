"""The base class of all stores, and the data that a store shares with its state directory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from kstore_core.errors import UnsupportedError
from kstore_core.layers import Cached, StoreMeasures
from kstore_core.layers.current_record import CurrentRecord
from kstore_core.offsets.entries import Partition, StoreRecord
from kstore_core.offsets.position import Position, copy_position
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.types import RecordContext

if TYPE_CHECKING:
    from kstore_core.query import PositionBound, Query, QueryResult
    from kstore_core.query.answering import Isolation

__all__ = ["Store", "StoreContext"]

K = TypeVar("K")


@dataclass(slots=True)
class StoreContext:
    """The data that a store shares with its state directory.

    Attributes
    ----------
    current_record : CurrentRecord
        The object that returns the current input record of the calling task or thread.
    record : StoreRecord
        The metadata of the store as of the last commit.
    position : dict
        For each topic and partition, the last input offset of the committed and staged writes.
    moved : bool
        True if the position has changed since the last commit.
    cache : Cached or None
        The store's cache; None if the store has no cache.
    measures : StoreMeasures or None
        The store's metrics; None if the store has no metrics.
    scratch : Path
        The path of a folder for the temporary files of a restore.
    partition : int or None
        The partition of the task; None if the directory's name does not contain a partition.
    read_only : bool
    view : callable
        A weak reference to the method of the state directory that leases a view of its last commit.
    open : bool
    moving : Lock
        The lock that a thread must hold while it advances the position.
    flushed : dict
        The position of the rows that the cache has flushed. This position is valid only while the
        number of the cache's flushes equals ``flushes``.
    """

    current_record: CurrentRecord
    record: StoreRecord
    position: dict[str, dict[int, int]] = field(default_factory=dict)
    moved: bool = False
    cache: Cached | None = None
    measures: StoreMeasures | None = None
    scratch: Path = Path()
    partition: int | None = None
    read_only: bool = False
    view: Callable[[], Any] | None = None
    open: bool = True
    moving: threading.Lock = field(default_factory=threading.Lock)
    flushed: dict[str, dict[int, int]] = field(default_factory=dict)
    flushes: int = -1

    def touch(self, record: RecordContext) -> None:
        """Advance the position to the input record of a write."""
        if record.topic is not None:
            offsets = self.position.get(record.topic)
            if offsets is None or record.offset > offsets.get(record.partition, -1):
                with self.moving:
                    self._move(record.topic, record.partition, record.offset)

    def _move(self, topic: str, partition: int, offset: int) -> None:
        offsets = self.position.setdefault(topic, {})
        if offset > offsets.get(partition, -1):
            cache = self.cache
            if cache is not None and cache.flushes != self.flushes and cache.dirty_bytes:
                self.flushed, self.flushes = copy_position(self.position), cache.flushes
            offsets[partition] = offset
            self.moved = True

    def position_now(self, *, below_cache: bool = False) -> Position:
        """Return the position, or the position of the flushed rows if ``below_cache`` is True."""
        # Copy the position before the check. If the check finds no unflushed rows, all rows up to
        # the copied position have been flushed.
        position = Position.copied(self.position)
        if below_cache and self.cache is not None and self.cache.flushes == self.flushes:
            return Position.copied(self.flushed)
        return position


class Store(Generic[K]):
    """The base class of all stores.

    A store is opened by ``state.open(spec)``, and is closed together with its state directory.
    """

    parts: StoreParts
    _bind: Callable[..., None]  # of a compiled base class, whose attributes are not in vars()
    _bound: tuple[Any, ...]
    _inner: Self | None = None

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        self._spec = spec
        self._context = context
        self._current_record = context.current_record
        self._touch = context.touch

    def _for_user(self, state: object) -> Self:
        """Return a copy of the store that has a reference to its state directory.

        So the state directory is not garbage collected while the user has the copy. The directory
        itself refers only to the original store, so there is no reference cycle.
        """
        face = type(self).__new__(type(self))
        # Use setattr, because an access to the copy's __dict__ would make its attributes slower.
        for name, value in (*vars(self).items(), ("_state", state), ("_inner", self)):
            setattr(face, name, value)
        face._bind(*self._bound)
        return face

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.name!r} ({self._spec.format.name})>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled or copied, because only the process that opened a store "
            "can use it. Instead, pickle its spec and the path of its state directory, and open "
            "the store again in the other process: open_state(path, read_only=True).open(spec)"
        )

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import store_html

        return store_html(self)

    @property
    def spec(self) -> StoreSpec:
        """The spec with which the store was opened."""
        return self._spec

    @property
    def name(self) -> str:
        """The store's name."""
        return self._spec.name

    @property
    def position(self) -> Position:
        """For each topic and partition, the last input offset whose writes the store contains.

        The writes may be uncommitted.
        """
        return self._context.position_now()

    @property
    def stream_time(self) -> int | None:
        """The greatest time of a record so far in ms; -1 if the store had no record.

        None if the store is a key-value store. A shard of a key-value store that Spark wrote has a
        stream time in its manifest.
        """
        clock = self.parts.clock
        return None if clock is None else clock.observed

    def offsets(self) -> dict[Partition, int]:
        """Return the last committed offset of each input partition and of the changelog."""
        return self._context.record.known_offsets

    def query(
        self,
        query: Query,
        *,
        bound: PositionBound | None = None,
        isolation: Isolation = "uncommitted",
        require_active: bool = False,
        collect_execution_info: bool = False,
    ) -> QueryResult[Any]:
        """Answer a query of :mod:`kstore_core.query`. Any thread may call this method.

        docs/queries.md lists the queries that each shape answers.

        Parameters
        ----------
        query : Query
        bound : PositionBound, optional
            The position that the store must have reached. By default any position is accepted.
        isolation : {"uncommitted", "committed"}
            With ``"committed"``, the query reads only committed data. The state must then be
            transactional or read-only. A read-only state always reads committed data.
        require_active : bool
            If True, return a failed result if the store is read-only.
        collect_execution_info : bool
            If True, add the store's name, the isolation and the duration to the result.

        Returns
        -------
        QueryResult
            The result, or the reason of the failure. If the result contains a scan, close the scan.

        Raises
        ------
        TypeError, ValueError
            The key cannot be serialised, or an argument has an unknown value.
        UnsupportedError
            The query is a KeyQuery or RangeQuery to a versioned store. Or ``isolation`` is
            ``"committed"``, and the state is neither transactional nor read-only.
        StoreClosedError, ForkedHandleError
        """
        from kstore_core.query.answering import answer

        return answer(
            self.parts,
            query,
            bound,
            isolation,
            require_active=require_active,
            collect_execution_info=collect_execution_info,
        )

    def on_flush(self, listener: Callable[[K, Any, Any], object] | None) -> None:
        """Call ``listener(key, new, old)`` for each change that the cache flushes.

        ``new`` and ``old`` are the values that a get would return after and before the change.
        During the call the current record is the input record of the last write to the key. If the
        listener raises, the commit or write that caused the flush raises this error. The next flush
        then calls the listener again for this change. See docs/caching.md.

        Parameters
        ----------
        listener : callable or None
            The new listener, which replaces an earlier listener. If None, the listener is removed.

        Raises
        ------
        UnsupportedError
            The store has no cache.
        """
        cache = self._context.cache
        if cache is None:
            raise UnsupportedError(
                f"the store {self.name!r} has no cache, so a listener would never be called. Open "
                "the state directory for writing, and open the store with spec.with_cache()"
            )
        inner = self._inner or self  # a user's copy in the cache would make a reference cycle
        cache.listen(None if listener is None else partial(inner._call_listener, listener))

    def _call_listener(
        self,
        listener: Callable[[K, Any, Any], object],
        row: bytes,
        new: bytes | None,
        old: bytes | None,
    ) -> None:
        after = None if new is None else self._change(row, new)
        before = None if old is None else self._change(row, old)
        known = before if after is None else after
        if known is not None:
            listener(
                known[0],
                None if after is None else after[1],
                None if before is None else before[1],
            )

    def _change(self, row: bytes, raw: bytes) -> tuple[K, Any] | None:
        """Return the user's key and value of a row, or None if no read would return the row."""
        raise NotImplementedError
