"""The bound of a query, which is the position that the store must have reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from kstore_core.offsets.position import Position

__all__ = ["PositionBound"]


@dataclass(frozen=True, slots=True)
class PositionBound:
    """The position that a store must have reached before it answers a query.

    A bound is not hashable, because a :class:`Position` is not hashable.

    Attributes
    ----------
    position : Position
        The offset that each partition must have reached, by topic and partition.
    """

    position: Position = field(default_factory=Position)

    def __post_init__(self) -> None:
        """Convert the position to a `Position` if it is another mapping."""
        object.__setattr__(self, "position", Position(self.position))

    @classmethod
    def unbounded(cls) -> Self:
        """Return a bound that every position satisfies."""
        return cls()

    @classmethod
    def at(cls, position: Mapping[str, Mapping[int, int]]) -> Self:
        """Return a bound that a store satisfies when it has reached all offsets of ``position``."""
        return cls(Position(position))

    def is_reached(self, position: Mapping[str, Mapping[int, int]], partition: int | None) -> bool:
        """Return True if a store at ``position`` has reached this bound.

        Parameters
        ----------
        position : mapping
            The position of the store.
        partition : int or None
            The partition of the store's task. Only the offsets of this partition are compared, as
            in Kafka Streams, because the store does not read other partitions. If ``partition`` is
            None, the offsets of all partitions are compared.
        """
        for topic, bounds in self.position.items():
            known = position.get(topic, {})
            for number, offset in bounds.items():
                if partition not in (None, number):
                    continue
                if number not in known or known[number] < offset:
                    return False
        return True
