"""A smoke test of an installed wheel: put, commit and read on each installed engine."""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from kstore_core import open_state, serdes, stores

ENGINES = {"memory": "kstore_memory", "lmdb": "lmdb", "rocksdb": "rocksdict"}
SPEC = stores.versioned_key_value_with_headers(
    "rates", history_retention_ms=86_400_000, key=serdes.UTF8, value=serdes.FLOAT64
)


def smoke(engine: str, root: Path) -> None:
    """Write two versions with headers, reopen where the engine is durable, and read both."""
    with open_state(root, engine=engine) as state:
        rates = state.open(SPEC)
        rates.put("CHF", 1.2010, timestamp=1_000, headers=[("source", b"ECB")])
        rates.put("CHF", 1.0280, timestamp=2_000)
        state.commit({})
        check(rates)
    if engine != "memory":
        with open_state(root, read_only=True) as state:
            check(state.open(SPEC))


def check(rates: object) -> None:
    """Raise SystemExit if the store lacks a version or a header."""
    latest, earlier = rates.get("CHF"), rates.get("CHF", as_of=1_500)  # type: ignore[attr-defined]
    found = latest.value, earlier.value, earlier.valid_to, list(earlier.headers)
    expected = 1.028, 1.201, 2_000, [("source", b"ECB")]
    if found != expected:
        raise SystemExit(f"the store returned {found}, expected {expected}")


def main() -> None:
    installed = [engine for engine, module in ENGINES.items() if find_spec(module)]
    with tempfile.TemporaryDirectory() as folder:
        for engine in installed:
            smoke(engine, Path(folder, engine))
    sys.stdout.write(f"kstore on Python {sys.version.split()[0]}: {', '.join(installed)}\n")


if __name__ == "__main__":
    main()
