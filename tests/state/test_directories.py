"""What Kafka Streams wrote opens here, and what is written here is the same, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core import ValueAndTimestamp, ValueTimestampHeaders, open_state, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.errors import FormatDowngradeError, InconsistentStateError, StateError
from tests.support.directories import CHANGELOG, digest, rows, value_of
from tests.support.golden import manifest, raw_rows, unhex, unpack

SPECS = {
    "kv_plain": stores.key_value("kv_plain"),
    "kv_timestamped": stores.timestamped_key_value("kv_timestamped"),
    "kv_headers": stores.timestamped_key_value_with_headers("kv_headers"),
    "versioned": stores.versioned_key_value("versioned", 60_000, 10_000),
}


@pytest.fixture(params=["read-only", "read-write"])
def read_only(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "read-only")


@pytest.mark.parametrize("name", ["kv_plain", "kv_timestamped", "kv_headers"])
def test_kafkas_key_value_directory_opens(name: str, read_only: bool, tmp_path: Path) -> None:
    golden = manifest(name)
    with open_state(unpack(name, tmp_path), read_only=read_only) as state:
        assert state.stores() == [name]
        assert state.stored_spec(name) is None
        assert state.offsets() == {(CHANGELOG.format(name), 0): 299}
        store = state.open(SPECS[name])
        wanted = [(unhex(line["key"]), value_of(line)) for line in golden["reopened"]]
        assert list(store.all()) == wanted
        assert list(store.all(reverse=True)) == wanted[::-1]
        assert [store.get(key) for key, _ in wanted] == [value for _, value in wanted]
        assert store.position == {"peer-topic": {0: 299}}
        assert store.offsets() == state.offsets()


def test_kafkas_versioned_directory_opens(read_only: bool, tmp_path: Path) -> None:
    golden = manifest("versioned")
    stream_time = golden["stream_time"][0]["observed_max_ts_upper_bound"]
    with open_state(unpack("versioned", tmp_path), read_only=read_only) as state:
        store = state.open(SPECS["versioned"])
        assert store.stream_time == -1  # Kafka does not keep it
        for line in golden["content"]:
            key = unhex(line["key"])
            assert as_json(store.get(key)) == line["latest"]
            assert [as_json(version) for version in store.history(key)] == line["all_versions"]
        store.clock.advance(stream_time)
        for line in golden["content_as_of"]:
            record = store.get(unhex(line["key"]), line["as_of"])
            got = as_json(record)
            assert (got and {**got, "valid_to": None}) == line["result"]


def as_json(record: Any) -> Any:
    return record and {
        "value": record.value.hex(),
        "timestamp": record.timestamp,
        "valid_to": record.valid_to,
    }


@pytest.mark.parametrize("name", SPECS)
def test_reading_changes_no_byte(name: str, tmp_path: Path) -> None:
    path = unpack(name, tmp_path)
    before = {file: digest(file) for file in sorted(path.rglob("*")) if file.is_file()}
    with open_state(path, read_only=True) as state:
        list(state.open(SPECS[name]).all())
    assert {file: digest(file) for file in sorted(path.rglob("*")) if file.is_file()} == before


@pytest.mark.parametrize("name", SPECS)
def test_the_same_writes_leave_the_same_rows(name: str, tmp_path: Path) -> None:
    operations = manifest(name)["op"]
    with open_state(tmp_path, engine="rocksdb") as state:
        store = state.open(SPECS[name])
        for number, line in enumerate(operations):
            if name == "versioned":
                key = unhex(line.get("put", line.get("delete")))
                if "put" in line:
                    data = unhex(line["value"])
                    assert store.put(key, data, timestamp=line["timestamp"]) == line["result"]
                else:
                    store.delete(key, timestamp=line["timestamp"])
            else:
                with state.record(topic="peer-topic", partition=0, offset=number):
                    store.put(unhex(line["put"]), value_of(line))
            if number % 50 == 0:
                state.commit({(CHANGELOG.format(name), 0): number})
        state.commit({(CHANGELOG.format(name), 0): len(operations) - 1})
    kafka = {line["cf"]: raw_rows(name, line["cf"]) for line in manifest(name)["raw_cf"]}
    database = make_engine("rocksdb").open(tmp_path, name, read_only=True)
    try:
        ours = {family: rows(database, family) for family in database.namespaces()}
    finally:
        database.close()
    ours["offsets"] = [row for row in ours["offsets"] if not row[0].startswith(b"kstore.")]
    assert ours == kafka


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("kv_headers", stores.timestamped_key_value),
        ("kv_headers", stores.key_value),
        ("kv_timestamped", stores.key_value),
    ],
)
def test_a_newer_format_is_not_downgraded(
    name: str, make: Any, read_only: bool, tmp_path: Path
) -> None:
    path = unpack(name, tmp_path)
    with (
        open_state(path, read_only=read_only) as state,
        pytest.raises(
            FormatDowngradeError,
            match=r"has the format '.*', but was opened with a spec of the older format",
        ),
    ):
        state.open(make(name))
    with open_state(path) as state:  # and the attempt leaves everything as it was
        assert len(list(state.open(SPECS[name]).all())) == len(manifest(name)["reopened"])


# Upgrades in place.

HALF = "kv_half_migrated_timestamped_to_headers"


@pytest.mark.parametrize(
    ("name", "make", "wrap"),
    [
        ("kv_plain", stores.timestamped_key_value, lambda v: ValueAndTimestamp(v, -1)),
        (
            "kv_plain",
            stores.timestamped_key_value_with_headers,
            lambda v: ValueTimestampHeaders(v, -1, []),
        ),
        (
            "kv_timestamped",
            stores.timestamped_key_value_with_headers,
            lambda v: ValueTimestampHeaders(v.value, v.timestamp, []),
        ),
    ],
)
def test_kafkas_rows_of_an_older_format_are_converted(
    name: str, make: Any, wrap: Any, read_only: bool, tmp_path: Path
) -> None:
    wanted = [(unhex(line["key"]), wrap(value_of(line))) for line in manifest(name)["reopened"]]
    path = unpack(name, tmp_path)
    for _ in range(2):  # the second time over what the first has moved
        with open_state(path, read_only=read_only) as state:
            store = state.open(make(name))
            assert list(store.all()) == wanted
            assert [store.get(key) for key, _ in wanted[::2]] == [value for _, value in wanted[::2]]
            assert list(store.all(reverse=True)) == wanted[::-1]
            assert store.position == {"peer-topic": {0: 299}}


def test_a_directory_that_kafka_has_half_upgraded_opens(read_only: bool, tmp_path: Path) -> None:
    golden = manifest(HALF)
    wanted = [(unhex(line["key"]), value_of(line)) for line in golden["reopened"]]
    with open_state(unpack(HALF, tmp_path), read_only=read_only) as state:
        store = state.open(stores.timestamped_key_value_with_headers(HALF))
        assert list(store.all()) == wanted
        assert list(store.all(reverse=True)) == wanted[::-1]
        assert store.get_many([key for key, _ in wanted]) == [value for _, value in wanted]
        assert store.offsets() == {(CHANGELOG.format(HALF), 0): 160}
        assert store.position == {"peer-topic": {0: 160}}
    database = make_engine("rocksdb").open(tmp_path / HALF, HALF, read_only=True)
    try:
        left = rows(database, "keyValueWithTimestamp")
    finally:
        database.close()
    assert left == (raw_rows(HALF, "keyValueWithTimestamp") if read_only else [])


def test_reading_a_half_upgraded_directory_changes_no_byte(tmp_path: Path) -> None:
    path = unpack(HALF, tmp_path)
    before = {file: digest(file) for file in sorted(path.rglob("*")) if file.is_file()}
    with open_state(path, read_only=True) as state:
        store = state.open(stores.timestamped_key_value_with_headers(HALF))
        for key, value in list(store.all()):
            assert store.get(key) == value
    assert {file: digest(file) for file in sorted(path.rglob("*")) if file.is_file()} == before


@pytest.mark.parametrize("commit_every", [1, 7, 1000])
def test_the_same_half_upgrade_leaves_the_same_rows(commit_every: int, tmp_path: Path) -> None:
    golden = manifest(HALF)
    phases = [
        (1, stores.timestamped_key_value(HALF)),
        (2, stores.timestamped_key_value_with_headers(HALF)),
    ]
    for phase, spec in phases:
        with open_state(tmp_path, engine="rocksdb") as state:
            store = state.open(spec)
            for number, line in enumerate(golden["op"]):
                if line["phase"] == phase:
                    replay(store, line)
                    if number % commit_every == 0:
                        state.commit()
    database = make_engine("rocksdb").open(tmp_path, HALF, read_only=True)
    try:
        families = {line["cf"] for line in golden["raw_cf"]}
        assert set(database.namespaces()) == families
        for family in families - {"offsets"}:
            assert rows(database, family) == raw_rows(HALF, family)
    finally:
        database.close()


def replay(store: Any, line: dict[str, Any]) -> None:
    if "put" in line:
        store.put(unhex(line["put"]), value_of(line))
        return
    wanted = None if line["result"] is None else value_of({"value": line["result"]})
    if "get" in line:
        assert store.get(unhex(line["get"])) == wanted
    else:
        assert store.delete(unhex(line["delete"])) == wanted


def test_another_kind_of_store_is_refused(tmp_path: Path) -> None:
    with (
        open_state(unpack("kv_headers", tmp_path)) as state,
        pytest.raises(InconsistentStateError, match="unexpected namespace"),
    ):
        state.open(stores.versioned_key_value("kv_headers", 60_000))


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    path = unpack("kv_plain", tmp_path)
    with (
        open_state(path, read_only=True) as state,
        pytest.raises(StateError, match="has no store 'other'"),
    ):
        state.open(stores.key_value("other"))
    assert not (path / "rocksdb" / "other").exists()
