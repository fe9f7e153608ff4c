"""PATH may be the root of a store in shards."""

import dataclasses

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.cli.parameters.places import places
from kstore_core.codec import partition
from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root

SPEC = stores.versioned_key_value("rates", 3_600_000, key=serdes.UTF8, value=serdes.FLOAT64)
CURRENCIES = ("AUD", "CHF", "EEK", "GBP", "USD")
PARTITIONS = 5


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root as Spark leaves it; one shard was never written."""
    root, scratch = tmp_path_factory.mktemp("rates"), tmp_path_factory.mktemp("scratch")
    home, shards = Root.at(root), []
    home.begin("job")
    for number in range(PARTITIONS):
        mine = [name for name in CURRENCIES if partition(name.encode(), PARTITIONS) == number]
        if not mine:
            shards.append(Shard(number))
            continue
        with open_state(scratch / str(number), engine="rocksdb") as state:
            store = state.open(SPEC)
            for name in mine:
                store.put(name, float(ord(name[0])), timestamp=1000)
        path = f"attempts/job/{number}-0/0_{number}"
        shards.append(Shard(number, path, home.upload(scratch / str(number), path)))
    manifest = Manifest(
        version=1, created_ms=0, job="job", mode="append", engine="rocksdb",
        partitions=PARTITIONS, spec=SPEC.describe(), shards=tuple(shards),
    )  # fmt: skip
    home.publish(manifest)
    return root


def test_a_state_directory_stands_for_itself(written):
    found = places(written)
    assert (found.directories, found.version) == ([written], None)
    assert found.by_key("x", is_hex=False, key_serde=None) == [written]


def test_a_root_stands_for_the_shards_that_were_written(root):
    found = places(root)
    assert found.version == 1
    assert len(found.directories) == len({partition(c.encode(), PARTITIONS) for c in CURRENCIES})
    for currency in CURRENCIES:
        first = found.by_key(currency, is_hex=False, key_serde=None)[0]
        assert first.name == f"0_{partition(currency.encode(), PARTITIONS)}"


def test_the_commands_read_every_shard(run, root):
    for currency in CURRENCIES:
        row = run("get", root, "rates", currency, "--json").document
        assert row["value"] == float(ord(currency[0]))
        assert len(run("history", root, "rates", currency, "--json").documents) == 1
    assert run("get", root, "rates", "XXX").code == 1
    dumped = run("dump", root, "rates", "--json").documents
    assert sorted(row["key"] for row in dumped) == list(CURRENCIES)
    assert len(run("dump", root, "rates", "--limit", "2", "--json").documents) == 2


def test_inspect_shows_the_shards(run, root):
    document = run("inspect", root, "--json").document
    assert document["version"] == 1
    assert len(document["directories"]) == len(places(root).directories)
    assert "a store in 5 shards, version 1" in run("inspect", root).out


def test_a_broken_manifest_is_an_error(run, tmp_path):
    (tmp_path / "_kstore").mkdir()
    (tmp_path / "_kstore" / "1.json").write_text("{")
    ran = run("inspect", tmp_path)
    assert ran.code == 4
    assert "manifest" in ran.err


def test_shards_whose_files_are_scattered_are_refused(root, tmp_path):
    """As in a copy of a root on an object store."""
    manifest = Root.at(root).load()
    scattered = [
        dataclasses.replace(
            shard, files=tuple(dataclasses.replace(f, at=shard.place_of(f)) for f in shard.files)
        )
        for shard in manifest.shards
    ]
    Root.at(tmp_path).publish(dataclasses.replace(manifest, shards=tuple(scattered)))
    with pytest.raises(
        StateError, match=r"shard \d .* has files in several directories.*write_store"
    ):
        places(tmp_path)
