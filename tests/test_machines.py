"""Random lives of a store, held against a plain model: writes, reads, commits, crashes, spills."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kstore_core import ValueAndTimestamp, ValueTimestampHeaders, stores
from tests.engines import ENGINES, Home
from kstore_core.testing.models import KeyValueModel, VersionedModel

KEYS = st.one_of(st.binary(max_size=3), st.sampled_from([b"k", b"k\x00", b"k\xff", b"\xff\xff"]))
DATA = st.binary(max_size=8)
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)
ENDS = st.none() | KEYS
EXAMPLES = {"memory": 60, "lmdb": 20, "rocksdb": 12}


class StoreMachine(RuleBasedStateMachine):
    """What every shape's machine does besides reading and writing."""

    engine: str
    make: Any

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp())
        self.home = Home(self.scratch / "0_0", self.engine)
        self.commits = 0
        self.model: Any = None
        self.stored: Any = None
        self.open()

    def open(self) -> None:
        self.state = self.home.open()
        self.store = self.state.open(self.spec())

    def spec(self) -> Any:
        raise NotImplementedError

    @rule()
    def commit(self) -> None:
        self.commits += 1
        self.state.commit({("t", 0): self.commits})
        self.stored = self.model.copy()

    @rule()
    def spill(self) -> None:
        self.state._staging.spill()
        self.stored = self.model.copy()

    @rule()
    def reopen(self) -> None:
        self.commit()
        self.state.close()
        self.open()

    @rule()
    def crash(self) -> None:
        self.state.close()
        self.model = self.stored.copy()
        self.open()

    @invariant()
    def offsets_are_the_last_commit(self) -> None:
        assert self.store.offsets() == ({("t", 0): self.commits} if self.commits else {})

    def teardown(self) -> None:
        self.state.close()
        shutil.rmtree(self.scratch)


class KeyValueMachine(StoreMachine):
    """A key-value store of any format."""

    wrap: Any

    @initialize()
    def begin(self) -> None:
        self.model, self.stored = KeyValueModel(), KeyValueModel()

    def spec(self) -> Any:
        return self.make("s")

    @rule(key=KEYS, data=st.none() | DATA, timestamp=st.integers(-5, 2**40), headers=HEADERS)
    def put(self, key: bytes, data: bytes | None, timestamp: int, headers: Any) -> None:
        value = None if data is None else self.wrap(data, timestamp, headers)
        self.store.put(key, value)
        self.model.put(key, value)

    @rule(key=KEYS, data=DATA)
    def put_if_absent(self, key: bytes, data: bytes) -> None:
        value = self.wrap(data, 7, [])
        assert self.store.put_if_absent(key, value) == self.model.rows.get(key)
        self.model.rows.setdefault(key, value)

    @rule(rows=st.lists(st.tuples(KEYS, st.none() | DATA), max_size=8))
    def put_all(self, rows: Any) -> None:
        pairs = [(key, None if data is None else self.wrap(data, 9, [])) for key, data in rows]
        self.store.put_all(pairs)
        for key, value in pairs:
            self.model.put(key, value)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        assert self.store.delete(key) == self.model.rows.get(key)
        self.model.put(key, None)

    @rule(keys=st.lists(KEYS, max_size=5))
    def get(self, keys: list[bytes]) -> None:
        wanted = [self.model.rows.get(key) for key in keys]
        assert [self.store.get(key) for key in keys] == wanted
        assert self.store.get_many(keys) == wanted

    @rule(lo=ENDS, hi=ENDS, reverse=st.booleans())
    def range(self, lo: bytes | None, hi: bytes | None, reverse: bool) -> None:
        wanted = self.model.range(lo, hi, reverse=reverse)
        assert list(self.store.range(lo, hi, reverse=reverse)) == wanted

    @rule(prefix=KEYS)
    def prefix_scan(self, prefix: bytes) -> None:
        assert list(self.store.prefix_scan(prefix)) == self.model.prefix(prefix)

    @rule(key=KEYS, data=DATA, reverse=st.booleans(), commit=st.booleans())
    def scan_is_a_moment(self, key: bytes, data: bytes, reverse: bool, commit: bool) -> None:
        wanted = self.model.range(None, None, reverse=reverse)
        scan = self.store.all(reverse=reverse)
        self.put(key, data, 11, [])
        self.delete(wanted[0][0] if wanted else key)
        if commit:
            self.commit()
        assert list(scan) == wanted


class VersionedMachine(StoreMachine):
    """A versioned store, with or without headers."""

    headers: bool
    retention: int
    interval: int
    times = st.integers(0, 60)

    @initialize()
    def begin(self) -> None:
        self.model = VersionedModel(self.retention, self.interval)
        self.stored = self.model.copy()

    def spec(self) -> Any:
        return self.make("s", self.retention, self.interval)

    def record(self, record: Any) -> Any:
        if record is None:
            return None
        value = (record.value, list(record.headers)) if self.headers else record.value
        return value, record.timestamp, record.valid_to

    @rule(key=KEYS, data=st.none() | DATA, ago=times, headers=HEADERS)
    def put(self, key: bytes, data: bytes | None, ago: int, headers: Any) -> None:
        timestamp = max(0, self.model.observed + 8 - ago)
        if self.headers:
            value = None if data is None else (data, headers)
            got = self.store.put(key, data, timestamp=timestamp, headers=headers)
        else:
            value = data
            got = self.store.put(key, data, timestamp=timestamp)
        assert got == self.model.put(key, value, timestamp)

    @rule(key=KEYS, ago=times)
    def delete(self, key: bytes, ago: int) -> None:
        timestamp = max(0, self.model.observed + 3 - ago)
        late = timestamp < self.model.horizon
        wanted = None if late else self.model.get(key, timestamp)
        assert self.record(self.store.delete(key, timestamp=timestamp)) == wanted
        self.model.put(key, None, timestamp)

    @rule(keys=st.lists(KEYS, max_size=4), ago=st.none() | times)
    def get(self, keys: list[bytes], ago: int | None) -> None:
        as_of = None if ago is None else self.model.observed + 5 - ago
        wanted = [self.model.get(key, as_of) for key in keys]
        assert [self.record(self.store.get(key, as_of)) for key in keys] == wanted
        assert list(map(self.record, self.store.get_many(keys, as_of))) == wanted

    @rule(key=KEYS, lo=st.none() | times, width=st.none() | times, reverse=st.booleans())
    def history(self, key: bytes, lo: int | None, width: int | None, reverse: bool) -> None:
        first = None if lo is None else self.model.observed - lo
        last = None if width is None else (first or 0) + width
        wanted = self.model.history(key, first, last, reverse=reverse)
        assert (
            list(map(self.record, self.store.history(key, first, last, reverse=reverse))) == wanted
        )

    @rule(lo=ENDS, hi=ENDS, ago=st.none() | times, reverse=st.booleans())
    def range(self, lo: bytes | None, hi: bytes | None, ago: int | None, reverse: bool) -> None:
        as_of = None if ago is None else self.model.observed + 5 - ago
        wanted = self.model.range(lo, hi, as_of, reverse=reverse)
        got = self.store.range(lo, hi, as_of, reverse=reverse)
        assert [(key, self.record(record)) for key, record in got] == wanted

    @precondition(lambda self: self.model is not None)
    @invariant()
    def stream_time_is_the_models(self) -> None:
        assert self.store.stream_time == self.model.observed


def _run(machine: type[StoreMachine], engine: str) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES[engine],
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


FORMATS = {
    "plain": (stores.key_value, lambda data, timestamp, headers: data),
    "timestamped": (
        stores.timestamped_key_value,
        lambda data, timestamp, headers: ValueAndTimestamp(data, timestamp),
    ),
    "headers": (stores.timestamped_key_value_with_headers, ValueTimestampHeaders),
}


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_key_value(format_name: str, engine_name: str) -> None:
    make_spec, wrap_value = FORMATS[format_name]

    class Machine(KeyValueMachine):
        engine = engine_name
        make = staticmethod(make_spec)
        wrap = staticmethod(wrap_value)

    _run(Machine, engine_name)


@pytest.mark.parametrize(("retention_ms", "interval_ms"), [(30, 10), (40, 1), (0, 5), (1000, 7)])
@pytest.mark.parametrize("with_headers", [False, True], ids=["plain", "headers"])
@pytest.mark.parametrize("engine_name", ENGINES)
def test_versioned(
    with_headers: bool, engine_name: str, retention_ms: int, interval_ms: int
) -> None:
    class Machine(VersionedMachine):
        engine = engine_name
        headers = with_headers
        retention = retention_ms
        interval = interval_ms
        make = staticmethod(
            stores.versioned_key_value_with_headers if with_headers else stores.versioned_key_value
        )

    _run(Machine, engine_name)
