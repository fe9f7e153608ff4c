"""The two sides: the same operations on Kafka Streams' store and on kstore's, with one face.

An operation is a JSON object of the golden traces' form, with `record`, the input record, beside
it; `commit` and `state` are operations too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from kstore_core import codec, open_state
from kstore_core.errors import KStoreError
from kstore_core.state import StateDirectory
from tests.interop.harness import Harness
from tests.interop.kinds import NAME, Kind
from tests.support.golden import unhex_headers
from tests.support.traces import apply

__all__ = ["CHANGELOG", "KStore", "Kafka", "Operation", "Run", "Side", "data_rows"]

Operation = dict[str, Any]

CHANGELOG = ("interop-s-changelog", 0)
"""Where the harness says that the store's changelog is."""

INDEX = 1
"""The first byte of an index row."""


class Run(Protocol):
    """An open store."""

    def __call__(self, operation: Operation) -> Any:
        """The operation's result; what was raised is {"exception": name}."""


class Side(Protocol):
    """One of the two programs."""

    name: str

    def open(self, kind: Kind, directory: Path) -> AbstractContextManager[Run]:
        """Open the store in a task directory, made where it is missing."""


class Kafka:
    """Kafka Streams."""

    name = "Kafka"

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    @contextmanager
    def open(self, kind: Kind, directory: Path, **options: Any) -> Iterator[Run]:
        options = kind.kafka_options | options
        with self.harness.open(kind.kafka, NAME, directory, **options):
            yield self._run

    def _run(self, operation: Operation) -> Any:
        result = self.harness.send(operation)["result"]
        if operation["op"] in ("commit", "state"):
            return {"offset": result["committed_offset"], "position": result["position"]}
        if isinstance(result, dict) and "exception" in result:
            return {"exception": result["exception"].rpartition(".")[2]}
        return result


class KStore:
    """kstore, on the engine that keeps Kafka's layout."""

    name = "kstore"

    @contextmanager
    def open(self, kind: Kind, directory: Path, *, read_only: bool = False) -> Iterator[Run]:
        directory.mkdir(parents=True, exist_ok=True)
        with open_state(directory, engine="rocksdb", read_only=read_only) as state:
            store = state.open(kind.spec)
            yield lambda operation: self._run(state, store, operation)

    def _run(self, state: StateDirectory, store: Any, operation: Operation) -> Any:
        if operation["op"] == "commit":
            state.commit({CHANGELOG: operation["offset"]})
        if operation["op"] in ("commit", "state"):
            position = {
                topic: {str(number): offset for number, offset in offsets.items()}
                for topic, offsets in store.position.items()
            }
            return {"offset": store.offsets().get(CHANGELOG), "position": position}
        record = operation.get("record")
        with state.record(**_arguments(record)) if record else nullcontext():
            try:
                return apply(store, operation)
            except (KStoreError, ValueError) as error:
                return {"exception": type(error).__name__}


def _arguments(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "headers": unhex_headers(record["headers"])}


def data_rows(
    harness: Harness, kind: Kind, directory: Path, *, first_segment: int = 0
) -> list[tuple[str, str, str, str]]:
    """Every row of a closed store as (database, family, key, value), but for what is kept of it.

    What Kafka Streams leaves behind is left out: of a versioned store that was reopened, rows of
    expired segments, which lie in one database with the others; of a time-ordered store, index rows
    whose rows have been deleted.
    """
    rows = [
        (row["db"], row["cf"], row["key"], row["value"])
        for row in harness.raw(directory, NAME)
        if row["cf"] != "offsets" and int(row["key"][:16] or "0", 16) >= first_segment
    ]
    if not kind.indexed:
        return rows
    held = {(database, key) for database, _, key, _ in rows}
    return [row for row in rows if (row[0], _target(kind, row[2])) in held]


def _target(kind: Kind, key: str) -> str:
    """The key of the row that an index row stands for; of any other row its own."""
    raw = bytes.fromhex(key)
    if raw[0] != INDEX:
        return key
    if kind.shape == "window":
        return codec.time_first_window_key(*codec.split_key_first_window_key(raw)).hex()
    return codec.time_first_session_key(*codec.split_key_first_session_key(raw)).hex()
