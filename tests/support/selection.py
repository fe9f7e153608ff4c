"""The selection that ``make test`` runs, and why the rest waits for ``make test-all``.

Of a test with several parameters the selection has every value of each once, in as few items as
that takes, so that each shape and each engine appears. The engines share the tests of the store
suite: each kind of store meets each engine, but not in each test. Whole modules wait where another
one finds the same bugs in less time; so does each test that is marked ``slow``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from kstore_core.testing import StoreSuite

__all__ = ["LATER", "SELECTED", "SPARK_PATH", "path_of", "repeated", "select"]

LATER = {
    "tests/damage/": "damage at many places; tests/plugins has one of each sort",
    "tests/environment/": "file systems that are full, slow or read-only, and power cuts",
    "tests/fuzz/": "each decoder's errors are in tests/codec/test_malformed.py",
    "tests/interop/": "the released Kafka Streams in a JVM; tests/golden has what it recorded",
    "tests/changelog/broker/": "a broker in a JVM; librdkafka's own is in test_kafka.py",
    "tests/processing/kafka/test_runner.py": "a broker in a JVM; test_mock.py has librdkafka's own",
    "tests/state/test_concurrency_processes.py": "races; test_concurrency.py has them in threads",
    "tests/plugins/lmdb/test_threads.py": "races; the contract kit has those of every engine",
    "tests/tables/segments/test_threads.py": "as the one of lmdb",
    "tests/tables/segments/test_kills.py": "kills; tests/typed/test_crashes.py has crashes",
    "tests/spark/map_state/test_kills.py": "kills of workers; test_map_state.py repeats epochs",
    "tests/spark/remote/test_kills.py": "kills at every request; test_states.py races attempts",
    "tests/spark/remote/test_streams.py": "streams; test_states.py has the commits they share",
    "tests/spark/remote/test_sinks.py": "sinks; tests/spark/stream/test_sink.py has disks",
    "tests/spark/rescale/test_model.py": "random rescales; test_key_classes.py has their rule",
    "tests/spark/stream/test_sink_kills.py": "as the one of map_state",
    "tests/spark/kafka/test_broker.py": "a broker in a JVM; test_reading.py has librdkafka's own",
    "tests/maintenance/finish_upgrade/test_upgrade_machines.py": "random lives; test_upgrade.py",
    "tests/maintenance/migrate/test_lives.py": "random lives; test_contents.py",
    "tests/testing/test_machines.py": "random lives; test_kit.py",
    "tests/testing/test_each_fault.py": "each write that fails; test_faults.py has one a sort",
    "tests/testing/test_planted.py": "planted bugs; test_kit.py runs the kit",
    "tests/testing/test_killed_lmdb.py": "kills; tests/typed/test_crashes.py has crashes",
    "tests/testing/test_killed_rocksdb.py": "as test_killed_lmdb.py",
    "tests/testing/test_interrupted_lmdb.py": "interrupts; test_interrupter.py has some",
    "tests/testing/test_interrupted_memory.py": "as test_interrupted_lmdb.py",
    "tests/testing/test_interrupted_rocksdb.py": "as test_interrupted_lmdb.py",
    "tests/maintenance/migrate/test_kills.py": "kills; test_contents.py has every migration",
    "tests/maintenance/rescale/test_kills.py": "kills; test_refusals.py has errors at each step",
    "tests/restore/test_kills.py": "kills; test_round_trips.py has every restore",
    "tests/engine/test_sqlite_engine.py": "the contract of another sample; test_sample_engine.py",
}
"""Folders and modules that wait, each with what takes its place."""

SPARK_PATH = {
    "tests/spark/write/test_readme.py": "write_store, read_store and a join as of a time",
}
"""Of the tests that start Spark, those that do not wait: the pipeline from end to end."""

ONCE = "tests/engine/"
"""Where engines of examples have their suites, in each of whose tests each value is once.

All values of one test meet all of another on the three engines of kstore.
"""

SELECTED = pytest.StashKey[list[str]]()
"""The identifiers of what ``make test`` runs, if all tests were collected."""

Value = tuple[tuple[str, ...], tuple[int, ...]]
"""The names of a parameter's columns, and the identities of their values."""


def select(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The items that ``make test`` runs."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    suite: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not _waits(item):
            test = item.nodeid.partition("[")[0]
            shared = suite[test.rpartition("::")[2]] if _is_of_stores(item) else tests[test]
            shared.append(item)
    chosen = [item for same in tests.values() for item in _each_value_once(same)]
    for number, same in enumerate(suite.values()):
        chosen += _each_value_once(_from_another_engine(same, number))
    return chosen


def repeated(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The items of the suites on engines of examples that repeat values of other items."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if path_of(item).startswith(ONCE) and _is_of_stores(item):
            tests[item.nodeid.partition("[")[0]].append(item)
    return {item for same in tests.values() for item in set(same) - set(_each_value_once(same))}


def _is_of_stores(item: pytest.Item) -> bool:
    return issubclass(getattr(item, "cls", None) or object, StoreSuite)


def _from_another_engine(items: list[pytest.Item], number: int) -> list[pytest.Item]:
    """The items of all engines, a different engine first for each number."""
    engines = list(dict.fromkeys(path_of(item) for item in items))
    first = engines[number % len(engines) :] + engines[: number % len(engines)]
    return sorted(items, key=lambda item: first.index(path_of(item)))


def path_of(item: pytest.Item) -> str:
    """The path of an item's module from the root."""
    return item.nodeid.partition("::")[0]


def _waits(item: pytest.Item) -> bool:
    path = path_of(item)
    if item.get_closest_marker("slow") or any(path.startswith(place) for place in LATER):
        return True
    return "spark" in getattr(item, "fixturenames", ()) and path not in SPARK_PATH


def _each_value_once(items: list[pytest.Item]) -> list[pytest.Item]:
    """Items of one test in which each value of each parameter appears, the rarest values first."""
    values = [_values(item) for item in items]
    if max(map(len, values)) < 3 and len({path_of(item) for item in items}) == 1:
        return items
    left = set[Value]().union(*values)
    used: Counter[Value] = Counter()
    chosen = []
    while left:
        best = max(
            range(len(items)),
            key=lambda at: (len(values[at] & left), -sum(used[value] for value in values[at])),
        )
        chosen.append(items[best])
        left -= values[best]
        used.update(values[best])
    return chosen


def _values(item: pytest.Item) -> set[Value]:
    """The values of an item's parameters; the columns of one ``parametrize`` are one parameter."""
    params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    values: set[Value] = set()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = names.split(",") if isinstance(names, str) else names
        columns = tuple(name.strip() for name in names)
        values.add((columns, tuple(id(params.pop(name, None)) for name in columns)))
    values.add((("class",), (id(getattr(item, "cls", None)),)))
    return values | {((name,), (id(value),)) for name, value in params.items()}
