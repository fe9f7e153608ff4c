"""Random lives of a store against a plain model: longer than the contract's, on more clocks."""

from __future__ import annotations

import pytest

from kstore_core.discovery.registry import engine_class
from kstore_core.testing import KeyValueMachine, VersionedMachine, run_machine
from kstore_core.testing.kinds import KEY_VALUE, VERSIONED, Kind
from tests.support.engines import ENGINES

EXAMPLES = {"memory": 40, "lmdb": 12, "rocksdb": 8}
STEPS = 40


@pytest.mark.parametrize("kind", KEY_VALUE, ids=str)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_key_value(kind: Kind, engine_name: str) -> None:
    run_machine(
        KeyValueMachine,
        examples=EXAMPLES[engine_name],
        steps=STEPS,
        make_engine=engine_class(engine_name),
        kind=kind,
    )


@pytest.mark.parametrize(("retention_ms", "interval_ms"), [(30, 10), (40, 1), (0, 5), (1000, 7)])
@pytest.mark.parametrize("kind", VERSIONED, ids=str)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_versioned(kind: Kind, engine_name: str, retention_ms: int, interval_ms: int) -> None:
    run_machine(
        VersionedMachine,
        examples=EXAMPLES[engine_name],
        steps=STEPS,
        make_engine=engine_class(engine_name),
        kind=kind,
        retention_ms=retention_ms,
        segment_interval_ms=interval_ms,
    )
