"""Metrics: what is counted as what, what is timed, and that a store without them has nothing."""

from __future__ import annotations

import gc
import logging
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from kstore_core import Windowed, open_state, stores
from kstore_core.errors import SpecError, StoreClosedError
from kstore_core.layers.metered import Latency, Operation, metered
from kstore_core.metrics import CATALOGUE, REGISTRY, MetricsRegistry, Rate, Window
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from kstore_core.testing.store_suite.any_kind import put
from kstore_core.typed import KeyValueStore, SessionStore, VersionedStore, WindowStore
from tests.support.engines import Home


@pytest.fixture
def registry() -> MetricsRegistry:
    return MetricsRegistry()


def totals(registry: MetricsRegistry) -> dict[str, float]:
    """How often each operation was counted, those that were."""
    found = {metric.name: metric.value for metric in registry.collect()}
    names = [name.removesuffix("-rate") for name in found if name.endswith("-rate")]
    return {
        name: count for name in names if "record" not in name and (count := found[f"{name}-total"])
    }


def test_operations_of_a_key_value_store(home: Home, registry: MetricsRegistry) -> None:
    with home.open(metrics=registry) as state:
        store = state.open(stores.key_value("s").with_metrics())
        assert isinstance(store, KeyValueStore)
        store.put(b"a", b"1")
        store.put(key=b"b", value=b"2")
        assert store.put_if_absent(b"a", b"2") == b"1"
        store.put_all({b"c": b"3", b"d": b"4"})
        assert store.get(b"a") == b"1"
        assert store.get_many([b"a", b"b"]) == [b"1", b"2"]
        assert store.delete(b"d") == b"4"
        assert len(list(store.all())) == 3
        assert list(store.range(b"a", b"b", reverse=True)) == [(b"b", b"2"), (b"a", b"1")]
        assert len(list(store.prefix_scan(b"c"))) == 1
        with pytest.raises(TypeError):
            store.get()
        with pytest.raises(TypeError, match="key cannot be None"):
            store.get(None)
        assert store.approximate_num_entries() >= 3
        assert store.spec.metrics == 64
        state.commit({("t", 0): 1})
        assert store.offsets() == {("t", 0): 1}
        assert totals(registry) == {
            "put": 2, "put-if-absent": 1, "put-all": 1, "get": 4, "delete": 1, "all": 1,
            "range": 1, "prefix-scan": 1, "commit": 1,
        }  # fmt: skip
        assert registry.value("put-latency-max") >= registry.value("put-latency-avg") > 0


def test_operations_of_the_other_shapes(home: Home, registry: MetricsRegistry) -> None:
    with home.open(metrics=registry) as state:
        windows = state.open(stores.window("w", 1000, 10).with_metrics())
        windows.put(b"k", b"1", window_start=5)
        assert windows.fetch_one(b"k", 5) == b"1"
        for scan in (windows.fetch(b"k"), windows.fetch_all(), windows.all(),
                     windows.fetch_range(b"k", b"k")):  # fmt: skip
            assert len(list(scan)) == 1
        assert isinstance(windows, WindowStore)
        assert totals(registry) == {"put": 1, "fetch": 5}
    with home.open(metrics=registry) as state:
        sessions = state.open(stores.session("x", 1000).with_metrics())
        sessions.put(Windowed(b"k", 1, 2), b"1")
        assert sessions.fetch_session(b"k", 1, 2) == b"1"
        for scan in (sessions.fetch(b"k"), sessions.find_sessions(b"k", 0, 9),
                     sessions.find_sessions_between(0, 9), sessions.fetch_range(None, None),
                     sessions.find_sessions_range(None, None, 0, 9)):  # fmt: skip
            assert len(list(scan)) == 1
        sessions.remove(Windowed(b"k", 1, 2))
        assert isinstance(sessions, SessionStore)
        assert totals(registry) == {"put": 1, "remove": 1, "fetch": 6}
    with home.open(metrics=registry) as state:
        versions = state.open(stores.versioned_key_value("v", 1000).with_metrics())
        assert versions.put(b"k", b"1", timestamp=5) == -1
        assert versions.get(b"k").value == b"1"
        assert len(versions.history(b"k")) == len(versions.get_many([b"k"])) == 1
        assert len(list(versions.all())) == len(list(versions.range(None, None, as_of=6))) == 1
        versions.delete(b"k", timestamp=6)
        assert isinstance(versions, VersionedStore)
        assert totals(registry) == {"put": 1, "get": 3, "delete": 1, "all": 1, "range": 1}


@pytest.mark.parametrize("kind", [KINDS[0], *LAYERED], ids=str)
def test_every_method_of_a_store_is_counted(tmp_path: Path, kind: Kind) -> None:
    with open_state(tmp_path, engine="memory", metrics=MetricsRegistry()) as state:
        store = state.open(kind.spec("s", *_times(kind)).with_metrics())
        named = [name for name in dir(store) if not name.startswith("_")]
        methods = {name for name in named if callable(getattr(store, name))}
        counts_itself = {"query"}
        says_nothing_of_rows = {"offsets", "on_flush", "approximate_num_entries"}
        assert methods - vars(store).keys() <= counts_itself | says_nothing_of_rows


def test_one_call_in_so_many_is_timed(home: Home, registry: MetricsRegistry) -> None:
    slow: list[int] = []
    operation = Operation(4)

    def function(number: int, *, pause: float = 0) -> int:
        time.sleep(pause)
        slow.append(number)
        return number

    counted = metered(operation, function)
    assert [counted(number, pause=0.02 if number % 4 == 0 else 0) for number in range(9)] == slow
    assert operation.count == 9
    mean, most, least = operation.latency.read() or (0, 0, 0)
    assert most >= mean >= least >= 20_000_000


def test_open_iterators_and_their_age(home: Home, registry: MetricsRegistry) -> None:
    with home.open(metrics=registry) as state:
        store = state.open(stores.key_value("s").with_metrics())
        store.put(b"a", b"1")
        before = time.time() * 1000
        assert registry.value("oldest-iterator-open-since-ms") == 0
        first = store.all()
        second = store.range(None, None)
        third = store.prefix_scan(b"a")
        assert registry.value("num-open-iterators") == 3
        opened = registry.value("oldest-iterator-open-since-ms")
        assert before - 1 <= opened <= time.time() * 1000
        time.sleep(0.01)
        first.close()
        first.close()
        assert registry.value("num-open-iterators") == 2
        assert registry.value("oldest-iterator-open-since-ms") >= opened
        assert list(second) == [(b"a", b"1")]
        assert registry.value("num-open-iterators") == 1, "at its end an iterator is not open"
        del third
        gc.collect()
        assert registry.value("num-open-iterators") == 0
        assert registry.value("iterator-duration-max") >= 10_000_000
        assert registry.value("all-latency-max") >= 10_000_000


def test_hit_ratio_and_sizes(home: Home, registry: MetricsRegistry) -> None:
    with home.open(metrics=registry) as state:
        store = state.open(stores.key_value("s").with_cache().with_metrics())
        with pytest.raises(KeyError):
            registry.value("hit-ratio-avg")
        store.put(b"a", b"1")
        for key in (b"a", b"a", b"a", b"b"):
            store.get(key)
        assert registry.value("hit-ratio-avg", record_cache_id="s") == 0.75
        store.get(b"b")
        state.commit()
        found = {m.name: m.value for m in registry.collect()}
        assert (found["hit-ratio-min"], found["hit-ratio-max"]) == (0.0, 0.75)
        assert found["cache-size-bytes-total"] == store.table.budget.used_bytes > 0
        assert found["uncommitted-bytes"] == 0
        store.put(b"abc", b"12345")
        assert registry.value("uncommitted-bytes") == 8
        state.flush()
        assert registry.value("uncommitted-bytes") == 8
        if home.engine == "memory":
            assert registry.value("num-keys") == 2


def test_dropped_records_and_lateness(home: Home, registry: MetricsRegistry) -> None:
    with home.open(metrics=registry) as state:
        windows = state.open(stores.window("w", 10, 1, segment_interval_ms=10).with_metrics(1))
        versions = state.open(stores.versioned_key_value("v", 10).with_metrics(1))
        for start in (1000, 1):
            with state.record(timestamp=int(time.time() * 1000) - 5000):
                windows.put(b"k", b"1", window_start=start)
            versions.put(b"k", b"1", timestamp=start)
        assert registry.value("dropped-records-total") == 2
        assert registry.value("dropped-records-rate") == pytest.approx(2 / 30)
        assert 5000 <= registry.value("record-e2e-latency-max") < 60_000


def test_restored_records(home: Home, registry: MetricsRegistry) -> None:
    pa = pytest.importorskip("pyarrow")
    from kstore_core.restore import restore

    with home.open(metrics=registry) as state:
        store = state.open(stores.key_value("s").with_metrics().with_cache())
        keys = pa.array([b"a", b"b", b"a"], pa.binary())
        restore(store, keys, keys, pa.array([1, 2, 3], pa.int64()))
        assert registry.value("restored-records-total") == 3
        assert registry.value("restored-records-rate") == pytest.approx(3 / 30)
        assert registry.value("restore-total") == 1
        assert store.get(b"a") == b"a"


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_names_tags_and_secrets(
    home: Home, registry: MetricsRegistry, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with home.open(metrics=registry) as state:
        store = state.open(kind.layered(0).spec("s", *_times(kind)))
        put(
            kind,
            store,
            b"private-key",
            kind.record(b"private-value", 50, [("private-h", b"private")]),
        )
        state.commit()
        found = registry.collect()
        assert {metric.name for metric in found} <= CATALOGUE.keys()
        scope = {"memory": "in-memory"}.get(home.engine, home.engine)
        scope += {"window": "-window", "session": "-session"}.get(kind.shape, "")
        (tags,) = {tuple(m.tags.items()) for m in found if m.name == "put-total"}
        assert dict(tags) == {
            "thread-id": "MainThread",
            "task-id": home.path.name,
            "state-dir": str(home.path),
            f"{scope}-state-id": "s",
        }
        assert "private" not in repr(found)
        assert "private" not in repr(state) + repr(store)
    assert "private" not in caplog.text


def _times(kind: Kind) -> tuple[int, ...]:
    return () if kind.shape == "key_value" else (86_400_000, 100)


def test_a_store_without_metrics_has_nothing_in_between(
    home: Home, registry: MetricsRegistry
) -> None:
    with home.open(metrics=registry) as state:
        store = state.open(stores.key_value("s"))
        assert "get" not in vars(store)
        assert store.get.__self__ is store
        assert registry.collect() == []


def test_directories_come_and_go(home: Home, tmp_path: Any) -> None:
    spec = stores.key_value("s").with_metrics()
    mine = {"state_dir": str(tmp_path / "one")}
    with open_state(tmp_path / "one", engine="memory") as one:
        assert one.metrics is REGISTRY
        store = one.open(spec)
        store.put(b"a", b"1")
        assert REGISTRY.value("put-total", **mine) == 1
        with open_state(tmp_path / "two", engine="memory") as two:
            two.open(spec).put(b"a", b"1")
            assert REGISTRY.value("put-total", **mine) == 1
    with pytest.raises(KeyError):
        REGISTRY.value("put-total", **mine)
    with pytest.raises(StoreClosedError):
        store.get(b"a")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_registry_keeps_no_directory_alive(tmp_path: Any, registry: MetricsRegistry) -> None:
    state = open_state(tmp_path / "one", engine="memory", metrics=registry)
    state.open(stores.key_value("s").with_cache().with_metrics()).put(b"a", b"1")
    alive = weakref.ref(state)
    del state
    gc.collect()
    assert alive() is None
    assert registry.collect() == []


def test_a_committed_view_is_not_measured_beside_its_writer(
    home: Home, registry: MetricsRegistry
) -> None:
    spec = stores.key_value("s").with_metrics()
    with home.open(metrics=registry, transactional=True) as state:
        state.open(spec).put(b"a", b"1")
        state.commit()
        with state.committed() as view:
            assert view.open(spec).get(b"a") == b"1"
            assert registry.value("get-total") == 0


def test_latencies_are_of_the_last_minute() -> None:
    second = 1_000_000_000
    latency = Latency()
    begun = time.monotonic_ns()
    assert latency.read(begun) is None
    latency.record(10, begun)
    latency.record(30, begun + 29 * second)
    assert latency.read(begun + 29 * second) == (20, 30, 10)
    latency.record(5, begun + 35 * second)
    assert latency.read(begun + 36 * second) == (15, 30, 5)
    assert latency.read(begun + 65 * second) == (5, 5, 5)
    assert latency.read(begun + 99 * second) is None


def test_rates_and_windows_are_of_the_last_minute() -> None:
    now = [100.0]
    rate, window = Rate(lambda: now[0]), Window(lambda: now[0])
    assert rate.read(0) == 0
    now[0] += 10
    assert rate.read(300) == 10, "over half a minute at least, as Kafka's"
    now[0] += 50
    assert rate.read(600) == 10
    now[0] += 1000
    assert rate.read(600) == 0
    assert window.read(None) is None
    assert window.read(1.0) == (1.0, 1.0, 1.0)
    now[0] += 30
    assert window.read(0.5) == (0.75, 1.0, 0.5)
    now[0] += 31
    assert window.read(None) == (0.5, 0.5, 0.5)
    now[0] += 31
    assert window.read(None) is None


def test_sampling_and_caches_that_cannot_be_are_refused() -> None:
    spec = stores.key_value("s")
    for sample_every in (0, -1, 2.5, "64", 2**31):
        with pytest.raises(SpecError, match="sample_every of the store"):
            spec.with_metrics(sample_every)  # type: ignore[arg-type]
    for max_bytes in (-1, 2.5, "1", True):
        with pytest.raises(SpecError, match="number of bytes"):
            spec.with_cache(max_bytes)  # type: ignore[arg-type]


def test_a_window_store_that_retains_duplicates_is_not_cached() -> None:
    spec = stores.window("w", 100, 10, retain_duplicates=True)
    with pytest.warns(UserWarning, match="retains duplicates") as caught:
        assert spec.with_cache() is spec
    assert caught[0].filename == __file__
    assert spec.with_metrics().metrics == 64
