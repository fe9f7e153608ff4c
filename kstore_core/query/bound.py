"""The position that a store must have reached before it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from kstore_core.offsets.position import Position

__all__ = ["PositionBound"]


@dataclass(frozen=True, slots=True)
class PositionBound:
    """A position that a store must have reached. Not hashable, as the position.

    Attributes
    ----------
    position : Position
    """

    position: Position = field(default_factory=Position)

    def __post_init__(self) -> None:
        """Take any mapping that is a position."""
        object.__setattr__(self, "position", Position(self.position))

    @classmethod
    def unbounded(cls) -> Self:
        """A bound that every position satisfies."""
        return cls()

    @classmethod
    def at(cls, position: Mapping[str, Mapping[int, int]]) -> Self:
        """Everything up to and with the offsets of ``position``."""
        return cls(Position(position))

    def is_reached(self, position: Mapping[str, Mapping[int, int]], partition: int | None) -> bool:
        """Return True if a store at ``position`` may answer.

        Parameters
        ----------
        partition : int or None
            That of the store's task, the only one that is compared, as in Kafka Streams: a store
            never reads the others. Where it is not known all are.
        """
        for topic, bounds in self.position.items():
            known = position.get(topic, {})
            for number, offset in bounds.items():
                if partition not in (None, number):
                    continue
                if number not in known or known[number] < offset:
                    return False
        return True
