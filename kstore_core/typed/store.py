"""What all shapes share: the input record's context, and what a store says of itself."""

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
    """The part of a state directory that its stores share with it.

    Attributes
    ----------
    current_record : CurrentRecord
        The directory's.
    record : StoreRecord
        What is committed.
    position : dict
        What is committed and what is staged, by topic and partition.
    moved : bool
        The position has moved since the last commit.
    cache : Cached or None
        Where the store has one.
    measures : StoreMeasures or None
        Where it is measured.
    partition : int or None
        That of the task, where the directory's name tells it.
    read_only : bool
    view : callable
        Gives a method of the state directory, or None: one that holds its newest view for a while.
    open : bool
    moving : Lock
        Of the thread that moves the position.
    flushed : dict
        The position below the cache, as long as it has been flushed ``flushes`` times.
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
        """A write took place: the position moves on to the record that it comes from."""
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
        """The position, or that of what is below the cache where there is one."""
        # Copied before it is asked whether rows are waiting: what it tells has been flushed then.
        position = Position.copied(self.position)
        if below_cache and self.cache is not None and self.cache.flushes == self.flushes:
            return Position.copied(self.flushed)
        return position


class Store(Generic[K]):
    """A store as its user sees it. Opened by ``state.open(spec)``, closed with the state."""

    parts: StoreParts
    _inner: Self | None = None

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        self._spec = spec
        self._context = context
        self._current_record = context.current_record
        self._touch = context.touch

    def _for_user(self, state: object) -> Self:
        """The same store, which keeps its state directory from being collected.

        The state directory has the store without it, so that there is no reference cycle.
        """
        face = type(self).__new__(type(self))
        # One by one: attributes of an object whose __dict__ was asked for are found more slowly.
        for name, value in (*vars(self).items(), ("_state", state), ("_inner", self)):
            setattr(face, name, value)
        face._share(self)
        return face

    def _share(self, store: Any) -> None:
        """Take over what a compiled base of the store has bound."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.name!r} ({self._spec.format.name})>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"{self!r} is not pickled or copied: what is open belongs to this process. Pickle its "
            "spec and the path of its state directory, and open them there: "
            "open_state(path, read_only=True).open(spec)"
        )

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import store_html

        return store_html(self)

    @property
    def spec(self) -> StoreSpec:
        """The description that the store was opened with."""
        return self._spec

    @property
    def name(self) -> str:
        """The store's name."""
        return self._spec.name

    @property
    def position(self) -> Position:
        """Topic to partition to the last input offset that has been applied, committed or not."""
        return self._context.position_now()

    @property
    def stream_time(self) -> int | None:
        """The greatest record time seen, ms; -1 before the first; None for a store without time."""
        clock = self.parts.clock
        return None if clock is None else clock.observed

    def offsets(self) -> dict[Partition, int]:
        """The last committed offset of each partition whose effects this store contains."""
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
        """Answer a query of :mod:`kstore_core.query`; docs/queries.md has the table.

        May be called by any thread.

        Parameters
        ----------
        query : Query
        bound : PositionBound, optional
            How far the store must have read. Left out, unbounded.
        isolation : {"uncommitted", "committed"}
            With the latter, only what is committed is seen, as of the last commit. The state must
            be transactional; a read-only one sees nothing else anyway.
        require_active : bool
            Refuse to answer where the store is opened read-only.
        collect_execution_info : bool
            Add the store, the isolation and the time taken to the result.

        Returns
        -------
        QueryResult
            The result, or the reason of the failure. Close a result that is a scan.

        Raises
        ------
        TypeError, ValueError
            The key cannot be serialised, or an argument has an unknown value.
        UnsupportedError
            A KeyQuery or RangeQuery to a versioned store; ``"committed"`` of a state that is
            written to and is not transactional.
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
        """Call ``listener(key, new, old)`` for each change that leaves the cache.

        Values are what a get gives, None where there is none; of a versioned store the latest
        versions. While it is called ``state.record`` is the record of the change's last write. What
        it raises is raised by the commit, or the write, that flushed, and the listener is
        called again for the change. See docs/caching.md.

        Parameters
        ----------
        listener : callable or None
            It takes the place of the one before; None ends it.

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
        inner = self._inner or self  # the cache is a part of the state directory
        cache.listen(None if listener is None else partial(inner._tell, listener))

    def _tell(
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
        """A row as its key and value; None where the user sees no change."""
        raise NotImplementedError
