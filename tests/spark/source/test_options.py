"""The options of a read: what they take, what is refused, what the documentation says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError
from kstore_core.spark.root.finding import find_root
from kstore_core.spark.source.options import (
    CHANGES,
    META,
    READ_OPTIONS,
    RECORDS,
    STREAMS,
    read_options,
)
from kstore_core.spark.source.planning import plan_of
from kstore_core.spark.source.texts import key_of, key_of_json, prefix_of
from tests.spark.support.by_hand import publish, rows_of
from tests.spark.support.object_store import Bucket
from tests.support.places import DOCS

PAGE = DOCS / "spark.md"
SPEC = stores.versioned_key_value("rates", 1000, 100, key=serdes.UTF8)


def test_every_value_is_what_it_says() -> None:
    asked = read_options(
        {
            "path": "/r",
            "AS_OF": "2020-01-01T00:00:00+01:00",
            "columns": "key, value",
            "partitions": "3,0",
            "headers": "True",
            "timestamps": "millis",
            "keys": '["a", 5]',
            "version": "7",
            "storage.Endpoint_URL": "http://x",
        }
    )
    assert (asked.path, asked.mode) == ("/r", RECORDS)
    assert asked.values == {
        "as_of": 1577833200000,
        "columns": ("key", "value"),
        "partitions": (3, 0),
        "headers": True,
        "timestamps": "millis",
        "keys": ["a", 5],
        "version": 7,
    }
    assert asked.storage == {"Endpoint_URL": "http://x"}


@pytest.mark.parametrize(
    ("given", "mode", "values"),
    [
        ({"from": "-5", "to": " 6 ", "history": "false"}, RECORDS, {"from": -5, "to": 6}),
        ({"changes": "true", "from_version": "1"}, CHANGES, {"from_version": 1}),
        ({"changes": "false", "streams_dir": "FALSE"}, RECORDS, {}),
        ({"metadata": "shards"}, META, {"metadata": "shards"}),
        ({"streams_dir": "true", "key": ""}, STREAMS, {"key": ""}),
    ],
)
def test_what_is_read(given: dict[str, str], mode: str, values: dict[str, Any]) -> None:
    asked = read_options({"path": "s3://b/r", **given})
    assert asked.mode == mode
    assert {name: asked.values[name] for name in values} == values
    assert set(asked.values) - set(values) <= {"history"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"asof": "5"}, r"no option 'asof'\. Did you mean 'as_of'\? The options are: path, store"),
        ({"zzz": "5"}, r"no option 'zzz'\. The options are: path"),
        ({"as_of": "2020-01-01T00:00"}, r"as_of='2020.*' is not milliseconds .*no UTC offset"),
        ({"as_of": "noon"}, "as_of='noon' is not milliseconds since the epoch, or ISO 8601"),
        ({"to": str(2**63)}, "does not fit 64 bits"),
        ({"history": "yes"}, "history='yes' is not true or false"),
        ({"version": "-1"}, "version='-1' is not a number"),
        ({"partitions": "0,,1"}, "partitions='0,,1' is not numbers, separated by commas"),
        ({"keys": "a"}, "keys='a' is not a JSON list of keys"),
        ({"keys": '{"a": 1}'}, "the JSON must be a list, not dict"),
        ({"timestamps": "ns"}, "timestamps='ns' is not timestamp or millis"),
        ({"metadata": "tables"}, "metadata='tables' is not stores, shards, versions"),
        ({"store": ""}, "store='' is not a name: it is empty"),
        (
            {"spec": "nothing"},
            r"spec='nothing' is not JSON in the format of the manifest, or module:NAME",
        ),
        ({"spec": "no.such:SPEC"}, "No module named 'no'; install the module"),
        ({"spec": "json:loads"}, "it names a function, not a StoreSpec"),
        ({"spec": "{}"}, "kstore.spec is damaged"),
        (
            {"changes": "true", "metadata": "files"},
            "'changes' and 'metadata' cannot be combined",
        ),
        (
            {"from_version": "1"},
            "'from_version' cannot be combined with a read of records; it can",
        ),
        ({"changes": "true", "as_of": "1"}, "'as_of' cannot be combined with changes=true"),
        ({"metadata": "files", "columns": "path"}, "'columns' cannot be combined with metadata"),
        (
            {"streams_dir": "true", "version": "1"},
            "'version' cannot be combined with streams_dir",
        ),
        ({"provider": "kstore", "owner": "me"}, "kstore cannot read a table in Spark's catalog"),
        ({"path": ""}, "the path is missing; pass the root of a store"),
        ({"path": "rates"}, "the path 'rates' is relative, but Spark's processes run in"),
        ({"path": "file:rates"}, "the path 'file:rates' is relative"),
        ({"path": "r:ates"}, "the path 'r:ates' is relative"),
        ({"keys": "[" * 5000}, "it is nested too deeply"),
        ({"paths": '["/a","/b"]'}, r"the paths \[\"/a\",\"/b\"\] were given; read each root"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_options({"path": "/r", **given})


def test_a_spec_is_json_or_in_a_module() -> None:
    text = json.dumps(SPEC.describe())
    assert read_options({"path": "/r", "spec": text}).values["spec"] == SPEC
    name = f"{__name__}:SPEC"
    assert read_options({"path": "/r", "spec": name}).values["spec"] is SPEC


@pytest.mark.parametrize(
    ("serde", "text", "raw"),
    [
        (serdes.BYTES, "é", "é".encode()),
        (serdes.BYTES, "0xff00", b"\xff\0"),
        (serdes.UTF8, "0xff", b"0xff"),
        (serdes.UTF8, "", b""),
        (serdes.INT32, "-1", b"\xff" * 4),
        (serdes.INT64, "5", bytes(7) + b"\5"),
        (serdes.FLOAT64, "1", b"\x3f\xf0" + bytes(6)),
        (serdes.JSON, '"a"', b'"a"'),
    ],
)
def test_keys_as_text(serde: Any, text: str, raw: bytes) -> None:
    spec = stores.key_value("s", key=serde)
    assert key_of(spec, text) == raw
    assert key_of_json(spec, json.loads(text) if serde is serdes.JSON else text) == raw


def test_keys_that_are_none() -> None:
    spec = stores.key_value("s", key=serdes.INT64)
    assert key_of_json(spec, 5) == key_of(spec, "5")
    for text in ("x", "1.5", str(2**64)):
        with pytest.raises(
            SpecError, match="is not a key of the store 's', whose key serde is 'int64'"
        ):
            key_of(spec, text)
    with pytest.raises(
        SpecError, match="is not a key of the store 's', whose key serde is 'json': the JSON is"
    ):
        key_of(stores.key_value("s", key=serdes.JSON), "[" * 9**5)
    with pytest.raises(SpecError, match="'0xf' is not a key of the store 's'"):
        key_of(stores.key_value("s"), "0xf")
    with pytest.raises(SpecError, match="prefix='0xf' is not hexadecimal"):
        prefix_of(spec, "0xf")
    assert prefix_of(stores.key_value("s", key=serdes.UTF8), "0xf") == b"0xf"
    assert prefix_of(spec, "0x00") == b"\0"


def fill(store: Any, shard: int) -> None:
    for number in range(4):
        store.put(f"k{number}", b"%d" % number, timestamp=number * 10)


def test_a_store_in_a_directory_of_several(tmp_path: Path) -> None:
    publish(tmp_path / "all" / "a", SPEC, fill, partitions=1)
    where = str(tmp_path / "all")
    assert find_root(where, None, {}).path == tmp_path / "all" / "a"
    (tmp_path / "all" / "notes.txt").touch()
    assert find_root(where, None, {}).path == tmp_path / "all" / "a"
    publish(tmp_path / "all" / "b", stores.key_value("other"), lambda s, n: s.put(b"a", b"b"))
    with pytest.raises(StateError, match=r"all has several stores: a, b\. Select the store w"):
        plan_of({"path": where})
    for name in ("a", "rates"):
        assert len(rows_of(plan_of({"path": where, "store": name}))) == 4
    with pytest.raises(
        StateError, match=r"no store 'c'; it has the directories a \(store 'rates'\), b"
    ):
        plan_of({"path": where, "store": "c"})
    publish(tmp_path / "all" / "c", SPEC, fill, partitions=1)
    with pytest.raises(StateError, match=r"several directories with a store 'rates': a, c\. Pass"):
        plan_of({"path": where, "store": "rates"})
    (tmp_path / "all" / "c" / "_kstore" / "1.json").write_text("{")
    for name in ("a", "other"):  # whatever another directory contains
        find_root(where, name, {})
    with pytest.raises(StateError, match=r"c/_kstore/1.json is not a valid manifest"):
        find_root(where, "none", {})
    with pytest.raises(StateError, match="a has the store 'rates', not 'other'"):
        plan_of({"path": f"{where}/a", "store": "other"})


def test_a_plan_of_options(root: Path) -> None:
    """The same reads as the functions give."""
    publish(root, SPEC, fill, partitions=1)
    where = {"path": str(root), "timestamps": "millis"}

    def keys(**options: str) -> list[str]:
        return [row["key"] for row in rows_of(plan_of({**where, **options}))]

    assert keys(as_of="15") == ["k0", "k1"]
    assert keys(history="true", **{"from": "5", "to": "25"}) == ["k0", "k1", "k2"]
    assert keys(key="k2") == ["k2"]
    assert keys(keys='["k3", "k0"]') == ["k0", "k3"]
    assert keys(prefix="k") == ["k0", "k1", "k2", "k3"]
    assert keys(prefix="x", version="1") == []
    changes = rows_of(plan_of({**where, "changes": "true", "from_version": "0"}))
    assert {row["_change"] for row in changes} == {"insert"}
    (row,) = rows_of(plan_of({"path": str(root), "metadata": "stores"}))
    assert row["store"] == "rates"
    with pytest.raises(SpecError, match="options key and keys cannot be combined"):
        keys(key="a", keys="[]")
    with pytest.raises(SpecError, match="changes=true needs the option from_version"):
        plan_of({**where, "changes": "true"})
    with pytest.raises(SpecError, match=r"from a disk; leave out the options storage\.key"):
        plan_of({**where, "streams_dir": "true", "storage.key": "x"})
    with pytest.raises(SpecError, match="does not describe its stores; describe the store with"):
        plan_of({**where, "streams_dir": "true"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as_of": "1", "history": "true"}, "as_of and history exclude each other; pass only one"),
        ({"from": "1"}, r"from_ts and to_ts \(for the data source, the options from and to\) need"),
        ({"history": "true", "from": "2", "to": "1"}, "from_ts=2 is after to_ts=1"),
        ({"key": "k1", "prefix": "k"}, "keys and prefix exclude each other"),
    ],
)
def test_questions_that_exclude_each_other(
    root: Path, options: dict[str, str], message: str
) -> None:
    publish(root, SPEC, fill, partitions=1)
    with pytest.raises(SpecError, match=message):
        plan_of({"path": str(root), **options})


@pytest.mark.spoils_root
def test_a_version_is_read_beside_one_that_is_damaged(root: Path) -> None:
    publish(root, SPEC, fill, partitions=1)
    publish(root, SPEC, lambda store, _: store.put("k9", b"9", timestamp=90), partitions=1)
    newest = root / "_kstore" / "2.json"
    newest.write_bytes(newest.read_bytes()[:300])
    with pytest.raises(StateError, match=r"2\.json is not a valid manifest.* To read another"):
        plan_of({"path": str(root)})
    found = rows_of(plan_of({"path": str(root), "version": "1", "columns": "key"}))
    assert [row["key"] for row in found] == ["k0", "k1", "k2", "k3"]


def test_names_of_directories_are_taken_as_they_are(root: Path) -> None:
    names = ["a#b", "a?b", "50%25", "a b"]
    for name in names:
        publish(root / name, SPEC, fill, partitions=1)
    for where in (str(root), root.as_uri(), f"file:{root}/"):
        for name in names:
            assert find_root(where, name, {}).path == root / name


def test_stores_on_an_object_store(bucket: Bucket) -> None:
    for name in ("a", "b"):
        publish(bucket.root(f"all/{name}"), replace(SPEC, name=f"of_{name}"), fill, partitions=1)
    reached = {f"storage.{name}": str(value) for name, value in bucket.options.items()}
    where = {"path": bucket.address("all"), **reached}
    (row,) = rows_of(plan_of({**where, "store": "of_b", "key": "k2", "columns": "value"}))
    assert row == {"value": b"2"}
    found = rows_of(plan_of({**where, "metadata": "stores"}))
    assert [(row["store"], row["root"]) for row in found] == [
        (f"of_{name}", bucket.address(f"all/{name}")) for name in ("a", "b")
    ]
    with pytest.raises(StateError, match=r"/all has several stores: a, b\. Select the store"):
        plan_of(where)
    with pytest.raises(StateError, match=r"s3://bucket-\d+/none has no store"):
        plan_of({**where, "path": bucket.address("none")})


def test_every_option_is_documented() -> None:
    text = PAGE.read_text()
    for option in READ_OPTIONS.values():
        assert f"| `{option.name}` | {option.wants} | {option.meaning} |" in text
