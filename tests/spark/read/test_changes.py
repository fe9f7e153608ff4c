"""The change feed, against what the two versions hold; a model of a dictionary each."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kstore_core import Windowed, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark.read import rows
from kstore_core.spark.root.root import Root
from tests.spark.support.by_hand import publish, rows_of
from tests.spark.support.plans import plan_changes, plan_store

SHARDS = 2
SPECS = {
    "plain": stores.key_value("s"),
    "headers": stores.timestamped_key_value_with_headers("s"),
    "versioned": stores.versioned_key_value("s", 200, 40),
    "versioned-headers": stores.versioned_key_value_with_headers("s", 200, 40),
    "window": stores.timestamped_window_with_headers("s", 300, 30, segment_interval_ms=100),
    "window-by-time": stores.window("s", 300, 30, segment_interval_ms=100, time_ordered=True),
    "duplicates": stores.window("s", 300, 30, retain_duplicates=True, segment_interval_ms=100),
    "session": stores.session_with_headers("s", 300, 100),
}


def put_some(store: Any, shard: int, seed: int, first: int, count: int) -> None:
    """Seeded puts and deletes of a shard's keys."""
    spec = store.spec
    dice = random.Random(seed)
    for number in range(first, first + count):
        key, value = b"k%d" % dice.randrange(15), b"v%d" % dice.randrange(4)
        gone, time = dice.random() < 0.2, number * 3 + dice.randrange(50)
        headers = [("n", b"%d" % (number % 3))]
        if partition(key, SHARDS) != shard:
            continue
        extras: dict[str, Any] = {"headers": headers} if spec.format.headers else {}
        if spec.shape == "session":
            store.put(Windowed(key, time - time % 20, time), None if gone else value, **extras)
            continue
        if spec.format.timestamped:
            extras["timestamp"] = time
        if spec.shape == "window":
            store.put(key, None if gone else value, window_start=time - time % 10, **extras)
        elif gone:
            store.delete(key, **({"timestamp": time} if spec.format.versioned else {}))
        else:
            store.put(key, value, **extras)


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a record from others: its key, its window, its number, or a version's time."""
    names = ["key", "window_start", "session_start", "session_end", "sequence"]
    names += ["timestamp"] if "valid_to" in row else []
    return tuple(row.get(name) for name in names)


def difference(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[Any]:
    """What a change feed has to say, in plain words."""
    before, after = ({identity(row): row for row in rows} for rows in (old, new))
    found = [("delete", row) for place, row in before.items() if place not in after]
    found += [("insert", row) for place, row in after.items() if place not in before]
    for place in before.keys() & after.keys():
        if before[place] != after[place]:
            found += [("update_preimage", before[place]), ("update_postimage", after[place])]
    return sorted(((what, sorted(row.items(), key=str)) for what, row in found), key=str)


def said(plan: Any) -> list[Any]:
    found = [(row.pop("_change"), sorted(row.items(), key=str)) for row in rows_of(plan)]
    return sorted(found, key=str)


@pytest.mark.parametrize("name", SPECS)
def test_what_differs_is_told(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_ROWS", 7)  # so that there are many blocks
    spec = SPECS[name]
    home, asked = Root.at(root), {"timestamps": "millis"}
    if spec.format.versioned:
        history: dict[str, Any] = {"history": True}
    else:
        history = {}
    contents: list[list[dict[str, Any]]] = [[]]
    for version, (first, count) in enumerate([(0, 80), (80, 30), (110, 0), (250, 60)]):
        manifest = publish(
            root,
            spec,
            lambda store, shard, v=version, a=first, n=count: put_some(store, shard, v, a, n),
            partitions=SHARDS,
        )
        contents.append(rows_of(plan_store(home, manifest, spec, **asked, **history)))
    for old, new in [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 4)]:
        plan = plan_changes(home, old, new, **asked)
        assert said(plan) == difference(contents[old], contents[new]), (old, new)
        changed = {row["partition"] for row in contents[new] if row not in contents[old]}
        assert changed <= {part.number for part in plan.parts}
    assert not plan_changes(home, 2, 3).parts  # the files are the same
    assert plan_changes(home, 3, None).parts == plan_changes(home, 3, 4).parts


def test_both_rows_of_an_update_stand_together(root: Path) -> None:
    spec = SPECS["plain"]
    publish(root, spec, lambda store, shard: store.put_all([(b"a", b"1"), (b"b", b"1")]))
    publish(root, spec, lambda store, shard: store.put_all([(b"a", b"2"), (b"c", b"1")]))
    plan = plan_changes(Root.at(root), 1, 2, columns=["_change", "key"], partitions=[1])
    assert [tuple(row.values()) for row in rows_of(plan)] == [
        ("update_preimage", b"a"),
        ("update_postimage", b"a"),
        ("insert", b"c"),
    ]


def test_an_upgrade_is_no_change_but_of_what_it_adds(root: Path) -> None:
    """Both versions are read in the newer format."""
    older = stores.timestamped_key_value("s")
    newer = stores.timestamped_key_value_with_headers("s")
    publish(root, older, lambda store, shard: store.put(b"a", b"1", timestamp=5))
    publish(root, newer, lambda store, shard: store.put(b"b", b"2", timestamp=6), partitions=2)
    plan = plan_changes(Root.at(root), 1, 2, timestamps="millis", partitions=[0])
    assert [(row["_change"], row["key"], row["headers"]) for row in rows_of(plan)] == [
        ("insert", b"b", [])
    ]


def test_values_of_two_types_are_not_compared(root: Path) -> None:
    for serde, value in ((serdes.UTF8, "text"), (serdes.INT64, 5)):
        spec = stores.key_value("s", value=serde)
        publish(root, spec, lambda store, shard, v=value: store.put(b"a", v), partitions=1)
    message = "the values of .* have the serde 'utf8' in version 1 and 'int64' in version 2"
    with pytest.raises(UnsupportedError, match=message):
        plan_changes(Root.at(root), 1, 2)


def test_versions_that_cannot_be_compared(root: Path) -> None:
    spec = SPECS["plain"]
    publish(root, spec, lambda store, shard: store.put(b"a", b"1"), partitions=1)
    publish(root, spec, lambda store, shard: store.put(b"a", b"2"), partitions=2)
    home = Root.at(root)
    with pytest.raises(UnsupportedError, match="has 1 shards in version 1 and 2 in version 2"):
        plan_changes(home, 1, 2)
    with pytest.raises(TypeError, match="version='1' is str, not int"):
        plan_changes(Root.at(root), "1", None)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="from_version=2 is newer than to_version=1"):
        plan_changes(home, 2, 1)
    with pytest.raises(StateError, match="has no version 9"):
        plan_changes(home, 1, 9)
    with pytest.raises(SpecError, match="the change feed of 's' has no column 'valu'"):
        plan_changes(home, 2, 2, columns=["valu"])
