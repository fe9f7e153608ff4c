"""The base of all shapes. It has the properties of a store, and the context of its directory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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
        The source of the current input record of the state directory.
    record : StoreRecord
        The metadata of the store as of the last commit.
    position : dict
        The position after all committed and staged writes, by topic and partition.
    moved : bool
        True if the position has changed since the last commit.
    cache : Cached or None
        The store's cache.
    measures : StoreMeasures or None
        The store's metrics.
    partition : int or None
        The partition of the task; None if the directory's name does not contain a partition.
    read_only : bool
    view : callable
        A weak reference to the state directory's method that leases its newest view.
    open : bool
    moving : Lock
        A thread takes this lock to advance the position.
    flushed : dict
        The position of the rows below the cache. It is valid while the cache's number of flushes
        equals ``flushes``.
    """

    current_record: CurrentRecord
    record: StoreRecord
    position: dict[str, dict[int, int]] = field(default_factory=dict)
    moved: bool = False
    cache: Cached | None = None
    measures: StoreMeasures | None = None
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
        """Return the position. With ``below_cache``, return the position of the flushed rows."""
        # Copied before the check: if no rows wait then, all of this position has been flushed.
        position = Position.copied(self.position)
        if below_cache and self.cache is not None and self.cache.flushes == self.flushes:
            return Position.copied(self.flushed)
        return position


class Store(Generic[K]):
    """The base of the stores. ``state.open(spec)`` opens one, and closing the state closes it."""

    parts: StoreParts
    _inner: Self | None = None

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        self._spec = spec
        self._context = context
        self._current_record = context.current_record
        self._touch = context.touch

    def _for_user(self, state: object) -> Self:
        """Return a copy of the store that keeps its state directory from being collected.

        The state directory refers to the original store only, so there is no reference cycle.
        """
        face = type(self).__new__(type(self))
        # With setattr: after an access to __dict__ of the copy, its attributes would be slower.
        for name, value in (*vars(self).items(), ("_state", state), ("_inner", self)):
            setattr(face, name, value)
        face._share(self)
        return face

    def _share(self, store: Any) -> None:
        """Copy the attributes of a compiled base from ``store``."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.name!r} ({self._spec.format.name})>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled or copied: an open store belongs to its process. Pickle "
            f"its "
            "spec and the path of its state directory, and open them there: "
            "open_state(path, read_only=True).open(spec)"
        )

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import store_html

        return store_html(self)

    @property
    def spec(self) -> StoreSpec:
        """The spec that the store was opened with."""
        return self._spec

    @property
    def name(self) -> str:
        """The store's name."""
        return self._spec.name

    @property
    def position(self) -> Position:
        """The last applied input offset of each topic and partition, committed or not."""
        return self._context.position_now()

    @property
    def stream_time(self) -> int | None:
        """The greatest record time so far, ms. -1 before the first record; None without a clock."""
        clock = self.parts.clock
        return None if clock is None else clock.observed

    def offsets(self) -> dict[Partition, int]:
        """Return the last committed offset of each input partition."""
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
            The position that the store must have reached. By default none.
        isolation : {"uncommitted", "committed"}
            ``"committed"`` reads the last commit only. The state must be transactional or
            read-only; a read-only state always reads committed data.
        require_active : bool
            Return a failed result if the store is read-only.
        collect_execution_info : bool
            Add the store, the isolation and the time taken to the result.

        Returns
        -------
        QueryResult
            The result, or the reason of the failure. Close a scan in the result.

        Raises
        ------
        TypeError, ValueError
            The key cannot be serialised, or an argument has an unknown value.
        UnsupportedError
            The query is a KeyQuery or RangeQuery to a versioned store; or it reads ``"committed"``
            data of a writable state that is not transactional.
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

        ``new`` and ``old`` are what a get would return after and before the change. During the call
        the current record is the record of the change's last write. If the listener raises, the
        commit or write that caused the flush raises the error. The next flush then calls the
        listener again for this change. See docs/caching.md.

        Parameters
        ----------
        listener : callable or None
            The listener replaces an earlier one. None removes the listener.

        Raises
        ------
        UnsupportedError
            The store has no cache.
        """
        cache = self._context.cache
        if cache is None:
            raise UnsupportedError(
                f"the store {self.name!r} has no cache, so nothing is flushed; open it for writing "
                "with spec.with_cache()"
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
        """Return the key and value of a row. Return None if no read would return the row."""
        raise NotImplementedError
