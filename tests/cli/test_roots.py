"""Commands on the root of a partitioned store that is damaged."""

from __future__ import annotations

import shutil
import string

import pytest

from kstore_core import serdes, stores
from kstore_core.codec import partition
from kstore_core.spark.root.root import Root
from tests.spark.support.by_hand import publish
from tests.spark.support.spoiling import SPOILS, linked_to, places_of, spoiled

SPEC = stores.timestamped_key_value("s", key=serdes.UTF8, value=serdes.UTF8)
READS = (("get", "s", "k"), ("dump", "s"), ("inspect",))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    publish(root, SPEC, lambda store, _: store.put("k", "v", timestamp=1), partitions=1)
    return root


def test_reverse_begins_with_the_last_shard(run, tmp_path):
    publish(tmp_path, SPEC, _put_letters, partitions=3)
    rows = run("dump", tmp_path, "s", "--json").documents
    assert len(rows) == 26
    assert run("dump", tmp_path, "s", "--reverse", "--json").documents == rows[::-1]


def _put_letters(store, shard):
    for letter in string.ascii_lowercase:
        if partition(letter.encode(), 3) == shard:
            store.put(letter, "v", timestamp=1)


def test_a_sound_root(run, root):
    ran = run("verify", root)
    files, shard = (line for line in ran.lines if not line.startswith("note"))
    assert ran.code == 0
    assert files == f"{root}: sound; read {len(places_of(Root.at(root)))} files"
    assert "0_0: sound; read 1 databases, 3 namespaces, 1 rows, " in shard
    ran = run("doctor", root)
    assert ran.code == 0
    assert "nothing is wrong; the sizes of" in ran.out


@pytest.mark.parametrize("name", SPOILS)
def test_every_damage_is_code_4(run, root, name):
    """The size of a file that flipped is right: doctor says that it did not look further."""
    place = next(name for name in places_of(Root.at(root)) if "OPTIONS" in name)
    with spoiled(root / place, SPOILS[name]):
        ran = run("verify", root)
        assert ran.code == 4
        assert f"corrupt s shard 0: file: {place}, of version 1, " in ran.out
        assert f"{root}: corrupt; read " in ran.out
        assert "0_0: sound" not in ran.out
        findings = run("verify", root, "--json").document["findings"]
        (finding,) = (one for one in findings if one.get("shard") == 0)
        assert place in finding["why"]
        assert "mode='overwrite'" in finding["remedy"]
        looked = run("doctor", root)
        if name == "flipped":
            assert (looked.code, "use kstore verify" in looked.out) == (0, True)
        else:
            assert (looked.code, place in looked.out) == (4, True)


@pytest.mark.parametrize("read", READS, ids=lambda read: read[0])
def test_reads_refuse_links(run, root, read, tmp_path):
    for number, place in enumerate(places_of(Root.at(root))):
        for way in (place, place.rpartition("/")[0]):
            target = tmp_path / f"{number}-{way.count('/')}"
            with spoiled(root / way, linked_to(target)):
                ran = run(read[0], root, *read[1:])
                assert ran.code == 4
                assert f"{way} is a symbolic link to {target}" in ran.err
    assert run(read[0], root, *read[1:]).code == 0


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"{}", b"\xff", b"[]"])
@pytest.mark.parametrize("command", ["verify", "doctor", "inspect", "dump"])
def test_a_damaged_manifest_is_code_4(run, root, tmp_path, content, command):
    shutil.copytree(root / "_kstore", tmp_path / "_kstore")
    (tmp_path / "_kstore" / "1.json").write_bytes(content)
    ran = run(command, tmp_path, *["s"] * (command == "dump"))
    assert ran.code == 4
    assert "_kstore/1.json is not a valid manifest" in ran.out + ran.err
