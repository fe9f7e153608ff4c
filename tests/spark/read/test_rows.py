"""Records of key-value and versioned stores as columns, against what the stores answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import FormatError, SpecError, UnsupportedError
from kstore_core.spark.read import batches as reads
from kstore_core.spark.read.selection import key_bytes, keys_of, prefix_bytes
from kstore_core.spark.root.root import Root
from tests.spark.support.by_hand import publish, rows_of
from tests.spark.support.plans import plan_changes, plan_store

SHARDS = 3
KEYS = [b"", b"\xff", b"\xff\xff", *(b"k%d" % number for number in range(12)), b"k1x"]
PLAIN = {
    "plain": stores.key_value("s"),
    "timestamped": stores.timestamped_key_value("s"),
    "headers": stores.timestamped_key_value_with_headers("s"),
}
VERSIONED = {
    "plain": stores.versioned_key_value("s", 300, 40),
    "headers": stores.versioned_key_value_with_headers("s", 300, 40),
}
CHOICES: list[dict[str, Any]] = [
    {},
    {"keys": [b"k1", b"k7", b"none"]},
    {"keys": []},
    {"prefix": b"k1"},
    {"prefix": b"\xff"},
    {"prefix": b""},
]


def own(shard: int) -> list[bytes]:
    return [key for key in KEYS if partition(key, SHARDS) == shard]


def chosen(key: bytes, asked: dict[str, Any]) -> bool:
    return key in asked.get("keys", [key]) and key.startswith(asked.get("prefix", b""))


def headers(number: int) -> list[tuple[str, bytes | None]]:
    return [("n", b"%d" % number), ("none", None)][: number % 3]


def listed(pairs: Any) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in pairs]


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["key"], row.get("timestamp", 0)))


@pytest.mark.parametrize("spec", PLAIN.values(), ids=PLAIN)
def test_the_records_of_a_key_value_store(root: Path, spec: Any) -> None:
    model: dict[bytes, dict[str, Any]] = {}

    def fill(store: Any, shard: int) -> None:
        for number, key in enumerate(k for k in own(shard) if k):
            extras: dict[str, Any] = {}
            row: dict[str, Any] = {"key": key, "value": b"v%d" % number}
            if spec.format.timestamped:
                row["timestamp"] = extras["timestamp"] = number
            if spec.format.headers:
                extras["headers"] = headers(number)
                row["headers"] = listed(headers(number))
            store.put(key, row["value"], **extras)
            model[key] = row | {"partition": shard}

    manifest = publish(root, spec, fill, partitions=SHARDS)
    for asked in CHOICES:
        found = rows_of(plan_store(Root.at(root), manifest, spec, timestamps="millis", **asked))
        assert by_key(found) == by_key([row for k, row in model.items() if chosen(k, asked)]), asked


@pytest.mark.parametrize(
    ("engine", "name"), [("rocksdb", "plain"), ("rocksdb", "headers"), ("lmdb", "headers")]
)
def test_the_versions_of_a_versioned_store(root: Path, engine: str, name: str) -> None:
    spec = VERSIONED[name]

    def fill(store: Any, shard: int) -> None:
        dice = random.Random(shard)
        mine = own(shard)
        for number in range(250):
            value = None if dice.random() < 0.15 else b"v%d" % number
            extras = {"headers": headers(number)} if spec.format.headers else {}
            time = max(0, number * 2 + dice.randint(-60, 20))
            store.put(dice.choice(mine), value, timestamp=time, **extras)

    manifest = publish(root, spec, fill, partitions=SHARDS, engine=engine)
    home = Root.at(root)
    times: list[dict[str, Any]] = [{"as_of": time} for time in (-1, 100, 330, 400, 480, 10**6)]
    times += [
        {"history": True, "from_ts": first, "to_ts": last}
        for first, last in [(None, None), (250, None), (None, 250), (300, 320), (0, 10), (400, 400)]
    ]
    for number, when in enumerate(({}, *times)):
        model = ask(home, manifest, spec, when)
        for asked in ({}, CHOICES[1 + number % 5], CHOICES[1 + (number + 2) % 5]):
            plan = plan_store(home, manifest, spec, timestamps="millis", **when, **asked)
            wanted = [row for row in model if chosen(row["key"], asked)]
            assert by_key(rows_of(plan)) == by_key(wanted), (when, asked)


def ask(home: Root, manifest: Any, spec: Any, when: dict[str, Any]) -> list[dict[str, Any]]:
    """What the shards' stores answer for each key."""
    rows = []
    for shard in manifest.shards:
        with (
            home.local_shard(shard) as path,
            open_state(path, engine=manifest.engine, read_only=True) as state,
        ):
            store = state.open(spec)
            for key in own(shard.shard):
                if when.get("history"):
                    records = list(store.history(key, when["from_ts"], when["to_ts"]))
                else:
                    records = [store.get(key, when.get("as_of"))]
                for record in records:
                    if record is not None:
                        row = {"key": key, "value": record.value, "timestamp": record.timestamp}
                        row["valid_to"] = record.valid_to
                        if spec.format.headers:
                            row["headers"] = listed(record.headers)
                        rows.append(row | {"partition": shard.shard})
    return rows


@pytest.fixture
def small(root: Path) -> tuple[Root, Any, Any]:
    """A store with a record in every shard."""
    spec = stores.timestamped_key_value_with_headers("s", key=serdes.UTF8, value=serdes.INT64)

    def fill(store: Any, shard: int) -> None:
        for number in range(30):
            if partition(b"%d" % number, SHARDS) == shard:
                store.put(f"{number}", number, timestamp=number, headers=headers(number))

    return Root.at(root), publish(root, spec, fill, partitions=SHARDS), spec


def test_keys_open_their_shards_only(small: tuple[Root, Any, Any]) -> None:
    home, manifest, spec = small
    for keys in (["7"], ["1", "2", "3", "3"], ["none"]):
        plan = plan_store(home, manifest, spec, keys=keys_of(spec, None, keys))
        numbers = {partition(key.encode(), SHARDS) for key in keys}
        assert {part.shard.shard for part in plan.parts} == numbers
        assert sum(len(part.keys) for part in plan.parts) == len(set(keys))
    number = partition(b"7", SHARDS)
    others = [other for other in range(SHARDS) if other != number]
    assert not plan_store(home, manifest, spec, keys=[b"7"], partitions=others).parts


def test_chosen_shards_and_columns(small: tuple[Root, Any, Any]) -> None:
    home, manifest, spec = small
    plan = plan_store(
        home, manifest, spec, partitions=[2, 0], columns=["partition", "value"], headers=False
    )
    rows = rows_of(plan)
    assert plan.task.schema.names == ["partition", "value"]
    assert sorted(row["value"] for row in rows) == [
        number for number in range(30) if partition(b"%d" % number, SHARDS) != 1
    ]
    assert "headers" not in plan_store(home, manifest, spec, headers=False).task.schema.names
    with pytest.raises(SpecError, match=r"root has no partition 3, 7; its partitions are 0, 1, 2$"):
        plan_store(home, manifest, spec, partitions=[7, 3, 1])


def test_what_is_not_asked_for_is_not_decoded(root: Path) -> None:
    """Headers that are damaged show to those who want headers, and to nobody else."""
    spec = stores.timestamped_key_value_with_headers("s")
    damaged = b"\x08\x02\x40AA" + (7).to_bytes(8, "big") + b"value"  # a header key of 32 bytes

    def fill(store: Any, shard: int) -> None:
        store.table.put_one(b"k", damaged)

    manifest = publish(root, spec, fill, partitions=1)
    whole = plan_store(Root.at(root), manifest, spec)
    with pytest.raises(FormatError):
        rows_of(whole)
    some = plan_store(Root.at(root), manifest, spec, columns=["value", "timestamp"])
    assert rows_of(some)[0]["value"] == b"value"
    keys = plan_store(Root.at(root), manifest, spec, columns=["key"])
    assert rows_of(keys) == [{"key": b"k"}]


def test_batches_have_limits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = stores.key_value("s")
    sizes = [10, 900, 10, 10, 3000, 500, 500] + [1] * 40

    def fill(store: Any, shard: int) -> None:
        for number, size in enumerate(sizes):
            store.put(b"%03d" % number, b"x" * size)

    manifest = publish(root, spec, fill, partitions=1)
    monkeypatch.setattr(reads, "BATCH_BYTES", 1000)
    monkeypatch.setattr(reads, "BATCH_ROWS", 30)
    plan = plan_store(Root.at(root), manifest, spec, columns=["key", "value"])
    (part,) = plan.parts
    batches = list(plan.task.read(part))
    assert all(batch.nbytes <= 1000 or batch.num_rows == 1 for batch in batches)
    assert max(batch.num_rows for batch in batches) <= 30
    found = [row["key"] for batch in batches for row in batch.to_pylist()]
    assert found == [b"%03d" % number for number in range(len(sizes))]


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"keys": [b"a"], "prefix": b"a"}, ValueError, "exclude each other; pass only one"),
        ({"from_ts": 1}, UnsupportedError, "'s' is a key-value store"),
        ({"headers": True}, SpecError, "the store 's' has the format 'plain'"),
        ({"timestamps": "s"}, SpecError, "timestamps must be 'timestamp' or 'millis', not 's'"),
    ],
)
def test_questions_that_make_no_sense(
    root: Path, asked: dict[str, Any], error: Any, message: str
) -> None:
    spec = stores.key_value("s")
    manifest = publish(root, spec, lambda store, shard: None)
    with pytest.raises(error, match=message):
        plan_store(Root.at(root), manifest, spec, **asked)


def test_keys_are_what_the_serde_takes() -> None:
    spec = stores.key_value("s", key=serdes.INT64)
    assert key_bytes(spec, 1) == bytes(7) + b"\1"
    assert keys_of(spec, 1, None) == [bytes(7) + b"\1"]
    assert keys_of(spec, None, None) is None
    assert prefix_bytes("é") == "é".encode()
    with pytest.raises(
        SpecError, match="'1' is not a key of the store 's', whose key serde is 'int64'"
    ):
        key_bytes(spec, "1")
    with pytest.raises(SpecError, match=r"None is not a key .* must not be null"):
        key_bytes(spec, None)
    with pytest.raises(ValueError, match="key and keys exclude each other"):
        keys_of(spec, 1, [1])
    with pytest.raises(TypeError, match="keys='abc' is a single key; pass it as key="):
        keys_of(spec, None, "abc")


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_keys_that_no_engine_holds_are_not_there(root: Path, engine: str) -> None:
    spec = stores.key_value("s")
    manifest = publish(root, spec, lambda store, shard: store.put(b"a", b"1"), engine=engine)
    for key in (b"", b"x" * 600):
        plan = plan_store(Root.at(root), manifest, spec, keys=[b"a", key])
        assert {row["key"] for row in rows_of(plan)} == {b"a"}
        assert rows_of(plan_store(Root.at(root), manifest, spec, prefix=b"x" * 600)) == []


def test_layers_of_a_description_do_not_matter(root: Path) -> None:
    spec = stores.window("s", 1000, 10, segment_interval_ms=100)
    publish(root, spec, lambda store, shard: store.put(b"a", b"1", window_start=0), partitions=1)
    layered = spec.with_cache().with_metrics().with_changelog({"retention.ms": "5"})
    (row,) = rows_of(plan_changes(Root.at(root), 0, None, spec=layered))
    assert (row["_change"], row["value"]) == ("insert", b"1")
