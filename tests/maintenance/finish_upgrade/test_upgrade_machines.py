"""Random lives of a store that is upgraded on the way, held against a plain model."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kstore_core import ValueAndTimestamp, ValueTimestampHeaders, formats, stores
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
from kstore_core.testing.models import KeyValueModel, VersionedModel
from tests.support.engines import ENGINES, Home
from tests.support.sound import assert_sound
from tests.typed.homes import database_of

KEYS = st.binary(max_size=2) | st.sampled_from([b"k", b"k\x00", b"k\xff", b"\xff\xff"])
DATA = st.binary(max_size=8)
HEADERS = st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2)
BUDGETS = st.sampled_from([-1, -1, 0, 1, 20, 100])
ENDS = st.none() | KEYS


class StopHere(Exception):  # noqa: N818
    """Ends a drain before its time."""


class UpgradeMachine(RuleBasedStateMachine):
    """What every shape's machine does besides reading and writing.

    A key's record in the model is what the newest format would read. ``committed`` is what a crash
    leaves: the model at the last commit or spill.
    """

    engine: str
    ladder: list[Any]  # the factories of the formats, older first

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp())
        self.home = Home(self.scratch / "0_0", self.engine)
        self.level = 0
        self.model, self.committed = self.new_model(), self.new_model()
        self.spills = 0
        self.open({}, None)

    def new_model(self) -> Any:
        raise NotImplementedError

    def spec(self, level: int | None = None) -> Any:
        return self.ladder[self.level if level is None else level]("s")

    def open(self, arguments: dict[str, Any], migrate_on_read: bool | None) -> None:
        self.state = self.home.open(**arguments)
        self.store = self.state.open(self.spec(), migrate_on_read=migrate_on_read)
        self.spills = 0

    def check_spills(self, before: Any) -> None:
        """A write that did not fit has had what was staged before it spilled."""
        if self.state._staging.spills != self.spills:
            self.spills = self.state._staging.spills
            self.committed = before

    def change(self, write: Any, *arguments: Any) -> Any:
        """Call a method of the machine that changes store and model alike."""
        before = self.model.copy()
        result = write(*arguments)
        self.check_spills(before)
        return result

    def check_reads(self) -> None:
        """No read spills."""
        assert self.state._staging.spills == self.spills

    @rule()
    def commit(self) -> None:
        self.state.commit()
        self.committed = self.model.copy()

    @rule()
    def spill(self) -> None:
        self.state._staging.spill()
        self.spills += 1
        self.committed = self.model.copy()

    @rule(
        crash=st.booleans(),
        up=st.integers(0, 2),
        budget=BUDGETS,
        of_directory=st.booleans(),
        of_store=st.none() | st.booleans(),
    )
    def reopen(
        self, crash: bool, up: int, budget: int, of_directory: bool, of_store: bool | None
    ) -> None:
        if not crash:
            self.commit()
        self.state.close()
        self.model = self.committed.copy()
        self.climb(up)
        arguments = {"uncommitted_max_bytes": budget, "migrate_on_read": of_directory}
        self.open(arguments, of_store)

    def climb(self, up: int) -> None:
        """Go up, but never over a format that is half upgraded to."""
        level = min(self.level + up, len(self.ladder) - 1)
        while level > self.level and self.blocked(level):
            level -= 1
        self.level = level

    def blocked(self, level: int) -> bool:
        with database_of(self.home, "s") as database:
            found = set(database.namespaces())
            rows = database.namespace("default").first() is not None
        between = {self.spec(step).format.namespace for step in range(1, level)}
        return rows and bool(found & between)

    @rule(rows=st.integers(1, 4), batches=st.none() | st.integers(1, 3))
    def drain(self, rows: int, batches: int | None) -> None:
        """Move what is left, or a part of it."""
        self.commit()
        self.state.close()
        count = 0

        def stop(_: Any) -> None:
            nonlocal count
            count += 1
            if count == batches:
                raise StopHere

        try:
            upgrade(
                self.home.path,
                "s",
                self.spec().format,
                engine=self.home._kept or self.engine,
                batch_rows=rows,
                progress=stop,
            )
        except StopHere:
            pass
        else:
            olds, _ = self.stored_keys()
            assert not olds
        self.open({}, None)

    @rule(up=st.integers(0, 2))
    def look_without_writing(self, up: int) -> None:
        """A read-only view, as of the last commit, changes nothing."""
        self.commit()
        self.state.close()
        level = self.level
        self.climb(up)
        before = self.stored_rows()
        with self.home.open(read_only=True) as state:
            self.check_all(state.open(self.spec()))
        assert self.stored_rows() == before
        self.level = level
        self.open({}, None)

    def check_all(self, store: Any) -> None:
        raise NotImplementedError

    def stored_rows(self) -> dict[str, list[tuple[bytes, bytes]]]:
        with database_of(self.home, "s") as database:
            return {
                name: [
                    row
                    for keys, values in database.namespace(name).scan()
                    for row in zip(keys, values, strict=True)
                ]
                for name in sorted(database.namespaces())
            }

    def stored_keys(self) -> tuple[set[bytes], set[bytes]]:
        """The keys of older namespaces and of the newest that is in use."""
        rows = self.stored_rows()
        own = self.spec().format.namespace
        olds = [keys for name, keys in rows.items() if name not in (own, "offsets")]
        return {key for keys in olds for key, _ in keys}, {key for key, _ in rows.get(own, [])}

    @rule()
    def no_key_is_in_two_places(self) -> None:
        self.commit()
        self.state.close()
        olds, news = self.stored_keys()
        assert not olds & news
        self.open({}, None)

    def teardown(self) -> None:
        self.state.close()
        if self.engine != "memory":
            assert_sound(self.home.path)
        shutil.rmtree(self.scratch)


class KeyValueUpgrades(UpgradeMachine):
    """A key-value store: plain, then timestamped, then with headers, or a part of that."""

    def new_model(self) -> Any:
        return KeyValueModel()

    def wrap(self, data: bytes, timestamp: int, headers: Any) -> tuple[Any, Any]:
        """What is put as the current format, and what the newest makes of it."""
        current = self.spec().format
        if current is formats.PLAIN:
            return data, ValueTimestampHeaders(data, -1, [])
        if current is formats.TIMESTAMPED:
            return ValueAndTimestamp(data, timestamp), ValueTimestampHeaders(data, timestamp, [])
        record = ValueTimestampHeaders(data, timestamp, headers)
        return record, record

    def read(self, record: Any) -> Any:
        """The model's record as the current format reads it."""
        current = self.spec().format
        if record is None or current is formats.TIMESTAMPED_HEADERS:
            return record
        if current is formats.PLAIN:
            return record.value
        return ValueAndTimestamp(record.value, record.timestamp)

    def read_all(self, items: Any) -> Any:
        return [(key, self.read(record)) for key, record in items]

    @rule(key=KEYS, data=st.none() | DATA, timestamp=st.integers(-5, 2**40), headers=HEADERS)
    def put(self, key: bytes, data: bytes | None, timestamp: int, headers: Any) -> None:
        value, record = (None, None) if data is None else self.wrap(data, timestamp, headers)
        self.change(lambda: (self.store.put(key, value), self.model.put(key, record)))

    @rule(key=KEYS, data=DATA)
    def put_if_absent(self, key: bytes, data: bytes) -> None:
        value, record = self.wrap(data, 7, [])
        wanted = self.read(self.model.rows.get(key))
        assert self.change(lambda: self.store.put_if_absent(key, value)) == wanted
        self.model.rows.setdefault(key, record)

    @rule(rows=st.lists(st.tuples(KEYS, st.none() | DATA), max_size=8))
    def put_all(self, rows: Any) -> None:
        pairs = [
            (key, (None, None) if data is None else self.wrap(data, 9, [("a", b"")]))
            for key, data in rows
        ]
        self.change(self.store.put_all, [(key, value) for key, (value, _) in pairs])
        for key, (_, record) in pairs:
            self.model.put(key, record)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        wanted = self.read(self.model.rows.get(key))
        assert self.change(self.store.delete, key) == wanted
        self.model.put(key, None)

    @rule(keys=st.lists(KEYS, max_size=5), many_first=st.booleans())
    def get(self, keys: list[bytes], many_first: bool) -> None:
        wanted = [self.read(self.model.rows.get(key)) for key in keys]
        if many_first:
            assert self.store.get_many(keys) == wanted
        assert [self.store.get(key) for key in keys] == wanted
        assert self.store.get_many(keys) == wanted
        self.check_reads()

    @rule(lo=ENDS, hi=ENDS, reverse=st.booleans())
    def range(self, lo: bytes | None, hi: bytes | None, reverse: bool) -> None:
        wanted = self.read_all(self.model.range(lo, hi, reverse=reverse))
        assert list(self.store.range(lo, hi, reverse=reverse)) == wanted
        self.check_reads()

    @rule(prefix=KEYS)
    def prefix_scan(self, prefix: bytes) -> None:
        wanted = self.read_all(self.model.prefix(prefix))
        assert list(self.store.prefix_scan(prefix)) == wanted

    @rule(key=KEYS, data=DATA, reverse=st.booleans(), commit=st.booleans())
    def scan_is_a_moment(self, key: bytes, data: bytes, reverse: bool, commit: bool) -> None:
        wanted = self.read_all(self.model.range(None, None, reverse=reverse))
        scan = self.store.all(reverse=reverse)
        self.put(key, data, 11, [])
        self.get([k for k, _ in wanted], many_first=False)
        self.delete(wanted[-1][0] if wanted else key)
        if commit:
            self.commit()
        assert list(scan) == wanted

    def check_all(self, store: Any) -> None:
        wanted = self.read_all(self.model.range(None, None, reverse=False))
        assert list(store.all()) == wanted
        assert list(store.all(reverse=True)) == wanted[::-1]
        assert [store.get(key) for key, _ in wanted] == [value for _, value in wanted]


class VersionedUpgrades(UpgradeMachine):
    """A versioned store that comes to keep headers."""

    retention: int
    interval: int
    times = st.integers(0, 60)

    def new_model(self) -> Any:
        return VersionedModel(self.retention, self.interval)

    def spec(self, level: int | None = None) -> Any:
        make = self.ladder[self.level if level is None else level]
        return make("s", self.retention, self.interval)

    @initialize()
    def stream_time_begins(self) -> None:
        assert self.store.stream_time == -1

    def check_spills(self, before: Any) -> None:
        spilled = self.state._staging.spills != self.spills
        super().check_spills(before)
        if spilled:  # a spill carries the stream time of the put that it makes room for
            self.committed.observed = self.store.stream_time

    def record(self, record: Any) -> Any:
        if record is None:
            return None
        headers = list(record.headers) if self.spec().format.headers else []
        return (record.value, headers), record.timestamp, record.valid_to

    def read(self, record: Any) -> Any:
        if record is None or self.spec().format.headers:
            return record
        (data, _), timestamp, valid_to = record
        return (data, []), timestamp, valid_to

    @rule(key=KEYS, data=st.none() | DATA, ago=times, headers=HEADERS)
    def put(self, key: bytes, data: bytes | None, ago: int, headers: Any) -> None:
        timestamp = max(0, self.model.observed + 8 - ago)
        kept = headers if self.spec().format.headers else []
        got = self.change(lambda: self.store.put(key, data, timestamp=timestamp, headers=kept))
        assert got == self.model.put(key, None if data is None else (data, kept), timestamp)

    @rule(key=KEYS, ago=times)
    def delete(self, key: bytes, ago: int) -> None:
        timestamp = max(0, self.model.observed + 3 - ago)
        late = timestamp < self.model.horizon
        wanted = None if late else self.model.get(key, timestamp)
        got = self.change(lambda: self.store.delete(key, timestamp=timestamp))
        assert self.record(got) == wanted
        self.model.put(key, None, timestamp)

    @rule(keys=st.lists(KEYS, max_size=4), ago=st.none() | times)
    def get(self, keys: list[bytes], ago: int | None) -> None:
        as_of = None if ago is None else self.model.observed + 5 - ago
        wanted = [self.model.get(key, as_of) for key in keys]
        assert [self.record(self.store.get(key, as_of)) for key in keys] == wanted
        assert list(map(self.record, self.store.get_many(keys, as_of))) == wanted
        self.check_reads()

    @rule(key=KEYS, reverse=st.booleans())
    def history(self, key: bytes, reverse: bool) -> None:
        wanted = self.model.history(key, None, None, reverse=reverse)
        assert list(map(self.record, self.store.history(key, reverse=reverse))) == wanted
        self.check_reads()

    @rule(lo=ENDS, hi=ENDS, ago=st.none() | times, reverse=st.booleans())
    def range(self, lo: bytes | None, hi: bytes | None, ago: int | None, reverse: bool) -> None:
        as_of = None if ago is None else self.model.observed + 5 - ago
        wanted = self.model.range(lo, hi, as_of, reverse=reverse)
        got = self.store.range(lo, hi, as_of, reverse=reverse)
        assert [(key, self.record(record)) for key, record in got] == wanted
        self.check_reads()

    @precondition(lambda self: self.model.observed >= 0)
    @rule()
    def stream_time_is_the_models(self) -> None:
        assert self.store.stream_time == self.model.observed

    def check_all(self, store: Any) -> None:
        for key in sorted(self.model.versions):
            wanted = self.model.history(key, None, None, reverse=False)
            assert list(map(self.record, store.history(key))) == wanted
            assert self.record(store.get(key)) == self.model.get(key)


LADDERS = {
    "plain to timestamped": [stores.key_value, stores.timestamped_key_value],
    "plain to headers": [stores.key_value, stores.timestamped_key_value_with_headers],
    "timestamped to headers": [
        stores.timestamped_key_value,
        stores.timestamped_key_value_with_headers,
    ],
    "all the way": [
        stores.key_value,
        stores.timestamped_key_value,
        stores.timestamped_key_value_with_headers,
    ],
}


def run(machine: type[UpgradeMachine], engine: str) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40 if engine == "memory" else 6,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("name", LADDERS)
def test_key_value(name: str, engine: str) -> None:
    class Machine(KeyValueUpgrades):
        ladder = LADDERS[name]

    Machine.engine = engine
    run(Machine, engine)


@pytest.mark.parametrize(("retention_ms", "interval_ms"), [(30, 10), (0, 5), (1000, 7)])
def test_versioned(engine: str, retention_ms: int, interval_ms: int) -> None:
    class Machine(VersionedUpgrades):
        retention = retention_ms
        interval = interval_ms
        ladder = [stores.versioned_key_value, stores.versioned_key_value_with_headers]  # noqa: RUF012

    Machine.engine = engine
    run(Machine, engine)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.none() | DATA),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.just("get_many"), KEYS, KEYS),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("scan")),
        st.tuples(st.just("commit")),
        st.tuples(st.just("drain"), st.integers(1, 3)),
    ),
    max_size=30,
)


@given(name=st.sampled_from(sorted(LADDERS)), before=OPERATIONS, after=OPERATIONS, budget=BUDGETS)
@settings(max_examples=25, deadline=None)
def test_every_engine_is_left_with_the_same_rows(
    name: str, before: Any, after: Any, budget: int
) -> None:
    ladder = LADDERS[name]
    left = []
    for engine in ENGINES:
        machine = type("Machine", (KeyValueUpgrades,), {"engine": engine, "ladder": ladder})()
        try:
            machine.reopen(True, 0, budget, True, None)
            play(machine, before)
            machine.reopen(False, len(ladder), budget, True, None)
            play(machine, after)
            machine.commit()
            machine.state.close()
            rows = machine.stored_rows()
            rows["offsets"] = [row for row in rows["offsets"] if row[0] != b"status"]
            left.append(rows)
        finally:
            machine.teardown()
    assert all(rows == left[0] for rows in left)


def play(machine: Any, operations: Any) -> None:
    for operation, *arguments in operations:
        match operation:
            case "put":
                machine.put(*arguments, 3, [("h", b"")])
            case "get":
                machine.get(arguments, many_first=False)
            case "get_many":
                machine.get(arguments, many_first=True)
            case "delete":
                machine.delete(*arguments)
            case "scan":
                machine.range(None, None, reverse=False)
            case "commit":
                machine.commit()
            case "drain":
                machine.drain(*arguments, 1)
