"""The memory that staged rows take, which the pages tell beside the data that is counted."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from kstore_core import Windowed, open_state
from kstore_core.testing.kinds import KINDS, Kind
from tests.support.pages import DOCS

STAGED, CACHED = 120, 250
"""Bytes that a row takes beside its data, in staging and in a cache: docs/transactions.md."""

ROWS = 2_500
PAGE = " ".join((DOCS / "transactions.md").read_text(encoding="utf-8").split())


def test_the_page_says_so() -> None:
    promised = f"a staged row needs about {STAGED} bytes more, and a row in a cache about {CACHED}"
    assert f"{promised} bytes more" in PAGE


@pytest.mark.parametrize("cached", [False, True], ids=["staged", "cached"])
@pytest.mark.parametrize("size", [8, 96, 1000])
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.layers and not kind.time_ordered], ids=str
)
def test_held_is_what_the_page_says(tmp_path: Path, kind: Kind, size: int, cached: bool) -> None:
    spec = kind.spec("s", *(() if kind.shape == "key_value" else (10**8, 10**7)))
    if cached:
        spec = spec.with_cache(1 << 30)
    state = open_state(tmp_path, engine="lmdb", uncommitted_max_bytes=-1)
    store = state.open(spec)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(ROWS):
            put(store, kind, b"key-%08d" % number, number, b"%08d" % number * (size // 8))
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = state.staged_bytes + ROWS * (CACHED if cached else STAGED)
    assert said * 0.75 <= held <= said * 1.25
    state.close()


def put(store: object, kind: Kind, key: bytes, number: int, value: bytes) -> None:
    headers = [("trace-id", b"12345678")]
    if kind.shape == "versioned":
        store.put(key, value, timestamp=1000 + number)  # type: ignore[attr-defined]
        return
    record = kind.value(kind.record(value, 1000 + number, headers))
    if kind.shape == "key_value":
        store.put(key, record)  # type: ignore[attr-defined]
    elif kind.shape == "window":
        store.put(key, record, window_start=1000)  # type: ignore[attr-defined]
    else:
        store.put(Windowed(key, 1000, 1000), record)  # type: ignore[attr-defined]
