"""What all shapes share: the input record's context, and what a store says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kstore_core.clock import StreamClock
from kstore_core.offsets import Partition, StoreRecord
from kstore_core.spec import StoreSpec
from kstore_core.typed.values import RecordSlot

__all__ = ["Store", "StoreHome"]

K = TypeVar("K")


@dataclass(slots=True)
class StoreHome:
    """What a store knows of the state directory that it lives in.

    Attributes
    ----------
    slot : RecordSlot
        The directory's.
    record : StoreRecord
        What is committed.
    position : dict
        What is committed and what is staged, by topic and partition.
    moved : bool
        The position has moved since the last commit.
    """

    slot: RecordSlot
    record: StoreRecord
    position: dict[str, dict[int, int]] = field(default_factory=dict)
    moved: bool = False

    def touch(self) -> None:
        """A write took place: the position moves on to the current record."""
        context = self.slot.current
        if context is not None and context.topic is not None:
            offsets = self.position.setdefault(context.topic, {})
            if context.offset > offsets.get(context.partition, -1):
                offsets[context.partition] = context.offset
                self.moved = True


class Store(Generic[K]):
    """A store as its user sees it. Opened by ``state.open(spec)``, closed with the state."""

    def __init__(self, spec: StoreSpec, home: StoreHome) -> None:
        self._spec = spec
        self._home = home
        self._slot = home.slot
        self._touch = home.touch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.name!r} ({self._spec.format.name})>"

    @property
    def spec(self) -> StoreSpec:
        """The description that the store was opened with."""
        return self._spec

    @property
    def name(self) -> str:
        """The store's name."""
        return self._spec.name

    @property
    def position(self) -> Mapping[str, Mapping[int, int]]:
        """Topic to partition to the last input offset that has been applied, committed or not."""
        return {topic: dict(offsets) for topic, offsets in self._home.position.items()}

    @property
    def stream_time(self) -> int | None:
        """The greatest record time seen, ms; -1 before the first; None for a store without time."""
        clock = self._clock()
        return None if clock is None else clock.observed

    def offsets(self) -> dict[Partition, int]:
        """The last committed offset of each partition whose effects this store contains."""
        return self._home.record.known_offsets

    def _clock(self) -> StreamClock | None:
        return None
