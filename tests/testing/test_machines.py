"""Random lives of a store against a plain model: longer than the contract's, on more clocks."""

from __future__ import annotations

from typing import Any

import pytest

from kstore_core.discovery.registry import engine_class
from kstore_core.testing import KeyValueMachine, VersionedMachine, run_machine
from kstore_core.testing.kinds import KEY_VALUE, VERSIONED, Kind
from tests.support.engines import ENGINES

EXAMPLES = {"memory": 40, "lmdb": 12, "rocksdb": 8}


def run_on(engine_name: str, machine: Any, **options: Any) -> None:
    """Run a machine on an engine, with fewer examples where the engine is slower."""
    run_machine(
        machine,
        examples=EXAMPLES[engine_name],
        steps=40,
        make_engine=engine_class(engine_name),
        **options,
    )


@pytest.mark.parametrize("kind", KEY_VALUE, ids=str)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_key_value(kind: Kind, engine_name: str) -> None:
    run_on(engine_name, KeyValueMachine, kind=kind)


@pytest.mark.parametrize(("retention_ms", "interval_ms"), [(30, 10), (40, 1), (0, 5), (1000, 7)])
@pytest.mark.parametrize("kind", VERSIONED, ids=str)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_versioned(kind: Kind, engine_name: str, retention_ms: int, interval_ms: int) -> None:
    more = {"retention_ms": retention_ms, "segment_interval_ms": interval_ms}
    run_on(engine_name, VersionedMachine, kind=kind, **more)
