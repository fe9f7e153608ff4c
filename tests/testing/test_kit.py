"""The kit's own parts: what it covers, and that its failures explain themselves."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core import stores
from kstore_core.errors import EngineError, SpecError, StoreClosedError
from kstore_core.formats import FORMATS
from kstore_core.spec import StoreSpec
from kstore_core.testing import EngineSuite, KeyValueMachine, StoreSuite, processes, run_machine
from kstore_core.testing.engine_suite.base import read, within
from kstore_core.testing.explaining import same
from kstore_core.testing.kinds import EDGES, KEY_VALUE, KINDS, Kind
from kstore_core.testing.processes import in_fork, killed_writer
from kstore_core.testing.suite import refuses
from kstore_memory import MemoryEngine
from tests.testing.nested import run


def spec_of(kind: Kind) -> StoreSpec:
    return kind.spec("s", *(() if kind.shape == "key_value" else (60_000, 20_000)))


def test_a_writer_that_is_killed_starts_without_pytest_and_hypothesis() -> None:
    code = """
import sys
import kstore_core.testing
import kstore_core.testing.killer.writer
print(sorted({"pytest", "hypothesis"} & set(sys.modules)), "Killer" in dir(kstore_core.testing))
print(hasattr(kstore_core.testing, "Nobody"), hasattr(kstore_core.testing.killer, "Nobody"))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.split("\n") == ["[] True", "False False", ""], ran.stderr


def test_every_shape_of_a_format_has_its_kind() -> None:
    there_are = {(family, f.name) for f in FORMATS.values() for family in f.shapes}
    assert {(spec_of(kind).family, kind.format.name) for kind in KINDS} == there_are


def test_every_kind_is_named_and_specified_as_what_it_is() -> None:
    assert len({str(kind) for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        spec = spec_of(kind)
        assert (spec.shape, spec.format) == (kind.shape, kind.format)


def test_every_factory_has_its_kind() -> None:
    factories = [
        function
        for name in stores.__all__
        if inspect.isfunction(function := getattr(stores, name))
        if function.__annotations__["return"] == "StoreSpec"
    ]
    kinds = {(kind.shape, kind.format) for kind in KINDS}
    for factory in factories:
        parameters = inspect.signature(factory).parameters.values()
        times = [60_000 for p in parameters if p.default is p.empty and p.name != "name"]
        spec = factory("s", *times)
        assert (spec.shape, spec.format) in kinds, factory.__name__


def test_every_edge_is_upgraded_along() -> None:
    named = {
        (family, older, newer.name)
        for newer in FORMATS.values()
        for older in newer.upgrades_from
        for family in {*newer.shapes}.intersection(FORMATS[older].shapes)
    }
    led = {(spec_of(older).family, older.format.name, newer.format.name) for older, newer in EDGES}
    assert led == named


@pytest.mark.parametrize("suite", [EngineSuite, StoreSuite])
def test_every_test_of_a_suite_has_a_name_of_its_own(suite: type) -> None:
    names = [
        name
        for part in suite.__mro__
        for name in vars(part)
        if name.startswith("test_") or name == "make_engine"
    ]
    assert len(names) == len(set(names))


def test_a_suite_without_an_engine_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="make_engine"):
        EngineSuite().make_engine()


VARIANTS = """
from kstore_core.testing import EngineSuite
from kstore_rocksdb import RocksDBEngine

class TestVariants(EngineSuite):
    variants = {"tiny": {"write_buffer_bytes": 65536}, "no bloom": {"bloom_bits": 0}}

    def make_engine(self):
        return RocksDBEngine()

    def test_mine(self, request):
        default = self.engine.options == RocksDBEngine().options
        assert default == ("None" in request.node.name), request.node.name
"""


def test_variants_run_the_suite_with_other_options(tmp_path: Path) -> None:
    module = tmp_path / "test_variants.py"
    module.write_text(VARIANTS)
    outcomes = run(f"{module}::TestVariants", "-k", "test_mine or dropped_and_made_again")
    assert not any(outcomes.of["Variants"].values())
    assert outcomes.ran == 6


# Failures.


def closed() -> None:
    raise StoreClosedError("orders has been closed")


def test_refuses_tells_what_is_wrong() -> None:
    assert str(refuses(StoreClosedError, closed, "a get", "orders")) == "orders has been closed"
    for kind, use, names, message in (
        (StoreClosedError, lambda: 5, (), "a get must raise StoreClosedError, but returned 5"),
        (
            SpecError,
            closed,
            (),
            "a get must raise SpecError, but raised StoreClosedError: orders has been",
        ),
        (
            StoreClosedError,
            closed,
            ("rates",),
            r"the message of StoreClosedError lacks \['rates'\]",
        ),
    ):
        with pytest.raises(AssertionError, match=message):
            refuses(kind, use, "a get", *names)


@pytest.mark.parametrize(
    ("chunk", "promise"),
    [
        (([], []), "never empty"),
        (((b"k",), [b"v"]), "pair of lists, not of tuple"),
        (([b"k"], (b"v",)), "pair of lists, not of tuple"),
        (([b"k"], []), "parallel"),
        (([b"k"], [bytearray(b"v")]), "are bytes"),
    ],
)
def test_a_chunk_is_held_to_its_promises(chunk: object, promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        read([([b"a"], [b"1"]), chunk])


def test_within_is_half_open() -> None:
    rows = {b"b": b"2", b"a": b"1", b"\xff": b"3"}
    assert within(rows, b"a", b"b") == [(b"a", b"1")]
    assert within(rows, None, None, reverse=True) == [(b"\xff", b"3"), (b"b", b"2"), (b"a", b"1")]
    assert within(rows, b"b", b"a") == []


def test_a_machine_fails_with_the_life_that_breaks_the_store() -> None:
    class Broken(KeyValueMachine):
        def read(self, value: object) -> None:
            """As if the store had lost everything."""

    with pytest.raises(AssertionError):
        run_machine(Broken, make_engine=MemoryEngine, kind=KEY_VALUE[1], examples=50)


# Processes.


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_what_fails_in_a_fork_fails_here(monkeypatch: pytest.MonkeyPatch) -> None:
    in_fork(lambda: None)
    parent = os.getpid()

    def fail() -> None:
        assert os.getpid() == parent, "this is the child"

    with pytest.raises(AssertionError, match="this is the child"):
        in_fork(fail)
    monkeypatch.setattr(processes, "TIMEOUT_S", 0.1)
    with pytest.raises(AssertionError, match="hangs"):
        in_fork(lambda: time.sleep(60))


class Unwritable(MemoryEngine):
    def open(self, *_: object, **__: object) -> object:
        raise EngineError("no such disk")


def test_a_writer_that_fails_is_not_taken_for_a_killed_one(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no such disk"):
        killed_writer(Unwritable(), tmp_path, "s", "process", 1)


ROWS = [(b"%08d" % number, b"v") for number in range(60_000)]


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (ROWS, ROWS[:9] + ROWS[10:], r"at index 9: found .*00000009.* expected .*00000010"),
        (ROWS[:-1], ROWS, "at index 59999: found nothing, but expected"),
        (
            dict(ROWS),
            dict(ROWS) | {b"00000003": b"w"},
            r"at index 3: found .*b'v'.* expected .*b'w'",
        ),
        (
            b"x" * 5_000_000,
            b"x" * 4_000_000 + b"y",
            "at index 4000000: found 120, but expected 121",
        ),
        ([1] * 500, (1,) * 500, "found a list, but expected a tuple"),
    ],
)
def test_long_values_that_differ_are_explained_by_where(left: Any, right: Any, told: str) -> None:
    with pytest.raises(AssertionError, match=rf"the promise: .*{told}"):
        same(left, right, "the promise")


def test_long_values_that_are_equal_pass() -> None:
    same(ROWS, list(ROWS), "the promise")
    same(dict(ROWS), dict(ROWS), "the promise")
