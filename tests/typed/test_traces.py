"""Operation by operation, the results that Kafka Streams gave.

Each trace runs with commits and reopens strewn in, which must not show in any result.
"""

from __future__ import annotations

from typing import Any

import pytest

from kstore_core import stores
from kstore_core.errors import UnsupportedError
from tests.support.engines import Home
from tests.support.golden import trace, traces
from tests.support.traces import apply

LIFE = {"staged only": (10**9, 10**9), "commits": (37, 10**9), "reopens": (41, 123)}


@pytest.mark.parametrize("life", LIFE)
@pytest.mark.parametrize("name", traces("kv_"))
def test_key_value(name: str, life: str, home: Home) -> None:
    config, operations = trace(name)
    make = {
        "kv_rocksdb_plain": stores.key_value,
        "kv_rocksdb_timestamped": stores.timestamped_key_value,
        "kv_rocksdb_headers": stores.timestamped_key_value_with_headers,
    }[config["store"]]
    _replay(home, make("s"), operations, LIFE[life])


@pytest.mark.parametrize("life", LIFE)
@pytest.mark.parametrize("headers", [False, True], ids=["plain", "headers"])
@pytest.mark.parametrize("name", traces("versioned_"))
def test_versioned(name: str, life: str, headers: bool, home: Home) -> None:
    config, operations = trace(name)
    make = stores.versioned_key_value_with_headers if headers else stores.versioned_key_value
    spec = make("s", config["history_retention_ms"], config["segment_interval_ms"])
    _replay(home, spec, operations, LIFE[life])


def _replay(home: Home, spec: Any, operations: list[Any], life: tuple[int, int]) -> None:
    commit_every, reopen_every = life
    state = home.open()
    store = state.open(spec)
    try:
        for number, operation in enumerate(operations, 1):
            _check(store, operation)
            if number % commit_every == 0:
                state.commit({("changelog", 0): number})
            if number % reopen_every == 0:
                state.commit()
                state.close()
                state = home.open()
                store = state.open(spec)
    finally:
        state.close()


def _check(store: Any, operation: dict[str, Any]) -> None:
    wanted = operation["result"]
    if wanted == {"unsupported": True}:
        with pytest.raises(UnsupportedError, match=r"fetch\(key, window_start"):
            apply(store, operation)
    elif isinstance(wanted, dict) and "exception" in wanted:
        with pytest.raises(ValueError, match="lies after"):
            apply(store, operation)
    elif operation["op"] == "approximate_num_entries":
        # RocksDB's estimate counts overwritten rows; here only its kind can be compared.
        assert apply(store, operation) >= 0
    else:
        assert apply(store, operation) == wanted, operation


WINDOWS = {
    "window_rocksdb_plain": stores.window,
    "window_rocksdb_timestamped": stores.timestamped_window,
    "window_rocksdb_headers": stores.timestamped_window_with_headers,
}


@pytest.mark.parametrize("life", LIFE)
@pytest.mark.parametrize("name", traces("window_"))
def test_window(name: str, life: str, home: Home) -> None:
    config, operations = trace(name)
    spec = WINDOWS[config["store"]](
        "s",
        config["retention_ms"],
        config["window_size_ms"],
        config["retain_duplicates"],
        config["segment_interval_ms"],
    )
    _replay(home, spec, operations, LIFE[life])


@pytest.mark.parametrize("life", LIFE)
@pytest.mark.parametrize("name", traces("session_"))
def test_session(name: str, life: str, home: Home) -> None:
    config, operations = trace(name)
    make = stores.session_with_headers if "headers" in config["store"] else stores.session
    spec = make("s", config["retention_ms"], config["segment_interval_ms"])
    _replay(home, spec, operations, LIFE[life])
