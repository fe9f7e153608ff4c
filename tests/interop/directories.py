"""State directories of Kafka Streams and of kstore, compared row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.differences import DIFFERENCES, NO_POSITION, disagreements
from tests.interop.kinds import Kind
from tests.interop.sides import KStore, Operation, Side

STATE: Operation = {"op": "state"}


def sit(side: Side, kind: Kind, directory: Path, operations: list[Operation]) -> list[Any]:
    """Open, run, close; the results."""
    with side.open(kind, directory) as run:
        return [run(operation) for operation in operations]


def differing(
    side: Side, kind: Kind, operations: list[Operation], alone: list[Any], passed: list[Any]
) -> list[Any]:
    """What differs from Kafka alone; where Kafka was asked both times nothing may."""
    differences = DIFFERENCES if isinstance(side, KStore) else [NO_POSITION]
    return disagreements(kind, operations, alone, passed, differences)
