"""Time-ordered windows and sessions give what Kafka Streams gives, and leave its rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.discovery.registry import make_engine
from kstore_core.spec import StoreSpec
from tests.support.engines import Home
from tests.support.golden import GOLDEN, lines
from tests.support.traces import apply

[RECORDED] = GOLDEN.glob("time_ordered_*.jsonl")
MAKE: dict[str, Callable[..., StoreSpec]] = {
    "window_ordered_timestamped": stores.timestamped_window,
    "window_ordered_headers": stores.timestamped_window_with_headers,
    "session_ordered_plain": stores.session,
}
Store = dict[str, Any]


@pytest.fixture(params=[*lines(RECORDED)], ids=lambda line: line["store"])
def recorded(request: pytest.FixtureRequest) -> Store:
    line: Store = request.param
    return line


def spec_of(recorded: Store, life: dict[str, Any]) -> StoreSpec:
    options = dict(life["options"])
    indexed = options.pop("index")
    return MAKE[life["kind"]](recorded["store"], **options, time_ordered=True, indexed=indexed)


@pytest.mark.parametrize("every", [None, 7], ids=["staged", "committed"])
def test_the_same_calls_give_the_same(recorded: Store, every: int | None, home: Home) -> None:
    for life in recorded["lives"]:
        with home.open() as state:
            store = state.open(spec_of(recorded, life))
            for number, operation in enumerate(life["operations"]):
                assert apply(store, operation) == operation["result"], (number, operation)
                if every is not None and number % every == 0:
                    state.commit()


def test_the_same_writes_leave_the_same_rows(recorded: Store, tmp_path: Any) -> None:
    name = recorded["store"]
    for life in recorded["lives"]:
        with open_state(tmp_path, engine="rocksdb") as state:
            store = state.open(spec_of(recorded, life))
            for operation in life["operations"]:
                apply(store, operation)
    engine = make_engine("rocksdb")
    left: list[list[str]] = []
    for child in engine.children(tmp_path, name):
        with closing(engine.open_child(tmp_path, name, child, read_only=True)) as database:
            for family in sorted({*database.namespaces()} - {"offsets"}):
                for keys, values in database.namespace(family).scan():
                    for key, value in zip(keys, values, strict=True):
                        left.append([f"{name}/{child}", family, key.hex(), value.hex()])
    kept = without_dangling(recorded["raw"], pairs=store._keys.pairs)
    assert sorted(left) == sorted(kept)


def without_dangling(raw: list[list[str]], pairs: RowPairs | None) -> list[list[str]]:
    """Kafka's rows. Its deletes put an index row, which stays until a fetch of the key meets it;
    kstore's remove it at once."""
    there = {(db, key) for db, _, key, _ in raw}
    kept = []
    for db, family, key, value in raw:
        if key.startswith("01"):
            assert pairs is not None
            assert value == ""
            if (db, pairs.row_of(bytes.fromhex(key)).hex()) not in there:
                continue
        kept.append([db, family, key, value])
    return kept
