"""The position that a store must have reached before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from kstore_core.offsets.position import Position

__all__ = ["PositionBound"]


@dataclass(frozen=True, slots=True)
class PositionBound:
    """A position that a store must have reached. Not hashable, like :class:`Position`.

    Attributes
    ----------
    position : Position
    """

    position: Position = field(default_factory=Position)

    def __post_init__(self) -> None:
        """Convert a mapping to a Position."""
        object.__setattr__(self, "position", Position(self.position))

    @classmethod
    def unbounded(cls) -> Self:
        """Return a bound that every position satisfies."""
        return cls()

    @classmethod
    def at(cls, position: Mapping[str, Mapping[int, int]]) -> Self:
        """Return a bound at the offsets of ``position``, inclusive."""
        return cls(Position(position))

    def is_reached(self, position: Mapping[str, Mapping[int, int]], partition: int | None) -> bool:
        """Return True if a store at ``position`` may answer.

        Parameters
        ----------
        partition : int or None
            The partition of the store's task. Only this one is compared, as in Kafka Streams,
            because a store never reads the others. None compares all.
        """
        for topic, bounds in self.position.items():
            known = position.get(topic, {})
            for number, offset in bounds.items():
                if partition not in (None, number):
                    continue
                if number not in known or known[number] < offset:
                    return False
        return True
