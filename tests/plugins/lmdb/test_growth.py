"""The map grows, the batch is written again, and whoever reads meanwhile sees his moment."""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import EngineError, SpecError, StorageFullError
from kstore_lmdb import native
from kstore_lmdb.database import LMDBDatabase
from tests.plugins.lmdb.conftest import OpenDatabase
from tests.plugins.lmdb.support import flat, numbered, put, python, rows_of, scanned
from tests.plugins.support import output_of

SMALL = 1 << 18


def size_of(database: LMDBDatabase) -> int:
    return database._environment.native.info()["map_size"]


@pytest.mark.parametrize("form", ["0.9", "1.0"])
def test_a_batch_larger_than_the_map_is_written(
    open_database: OpenDatabase, tmp_path: Path, form: str
) -> None:
    database = open_database(map_size_bytes=SMALL, format_version=form)
    before = size_of(database)
    assert before == SMALL
    rows = numbered(5000, 1000)
    put(database, rows)
    assert size_of(database) > before
    assert scanned(database.namespace("default")) == list(rows.items())
    database.close()
    assert rows_of(tmp_path) == list(rows.items())


def test_a_load_and_a_namespace_grow_it_too(open_database: OpenDatabase) -> None:
    database = open_database(map_size_bytes=SMALL)
    rows = numbered(20_000, 300)
    assert database.load("more", [(list(rows), list(rows.values()))]) == len(rows)
    assert scanned(database.namespace("more")) == list(rows.items())
    for number in range(60):
        database.namespace(f"n{number}")
    assert len(database.namespaces()) == 62


def test_a_drop_in_a_map_that_is_full(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every commit is kept by a snapshot, so that it takes new pages, a drop's as well."""
    monkeypatch.setattr("kstore_lmdb.environment.added_bytes", lambda _: 8192)
    database = open_database(map_size_bytes=1 << 16)
    moments, sizes = [], set()
    for number in range(20):
        database.namespace("n")
        put(database, {b"": b"%d" % number, b"a": b"1"}, "n")
        moments.append(database.snapshot())
        before = size_of(database)
        database.drop_namespace("n")
        if size_of(database) > before:
            sizes.add(size_of(database))
        assert database.namespaces() == ["default"]
    assert sizes, "no drop made the map grow"
    for number, snapshot in enumerate(moments):
        assert scanned(snapshot.namespace("n")) == [(b"", b"%d" % number), (b"a", b"1")]


def test_scans_and_snapshots_of_every_age_go_on_as_they_began(open_database: OpenDatabase) -> None:
    database = open_database(map_size_bytes=SMALL)
    space = database.namespace("default")
    rows = numbered(300)
    rows[b""] = b"empty"
    old = sorted(rows.items())
    put(database, rows)
    scans: list[tuple[Any, list[Any]]] = []

    def begin(state: list[Any]) -> None:
        for reverse in (False, True):
            fresh, begun = space.scan(reverse=reverse), space.scan(reverse=reverse)
            first = flat([next(begun), next(begun)])
            wanted = state[::-1] if reverse else state
            assert first == wanted[: len(first)]
            scans.extend([(fresh, wanted), (begun, wanted[len(first) :])])

    begin(old)
    snapshot = database.snapshot()
    look_up = snapshot.namespace("default").fast_get
    assert look_up(b"00000000") == rows[b"00000000"]
    put(database, {b"z": b"newer", b"00000000": None})
    newer = sorted([*old[0:1], *old[2:], (b"z", b"newer")])
    begin(newer)
    get = space.fast_get
    assert get(b"z") == b"newer"
    before = size_of(database)
    put(database, {b"%08d" % n: bytes(1000) for n in range(5000)})
    assert size_of(database) > before
    for scan, wanted in scans:
        assert flat(scan) == wanted
    then = snapshot.namespace("default")
    assert scanned(then) == old
    assert scanned(then, reverse=True) == old[::-1]
    assert then.get(b"00000000") == rows[b"00000000"]
    assert then.get_many([b"", b"00000001", b"z"]) == [b"empty", rows[b"00000001"], None]
    assert then.approximate_count() == len(old)
    assert get(b"00000000") == bytes(1000)
    snapshot.close()


def test_the_copy_of_an_old_moment_goes_with_it(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    database = open_database(map_size_bytes=SMALL)
    put(database, {b"a": b"1"})
    closed = database.snapshot()
    put(database, {b"a": b"2"})
    dropped = database.snapshot()
    put(database, {b"a": b"3"})
    kept = database.snapshot()
    put(database, {b"a": b"4"})
    put(database, numbered(5000, 1000))
    assert len(list(scratch.iterdir())) == 3
    closed.close()
    del dropped
    assert len(list(scratch.iterdir())) == 1
    assert kept.namespace("default").get(b"a") == b"3"
    database.close()
    assert list(scratch.iterdir()) == []


def test_a_reader_survives_the_growth_of_its_writer_in_one_process(
    open_database: OpenDatabase,
) -> None:
    writer = open_database(map_size_bytes=SMALL)
    put(writer, {b"a": b"1"})
    reader = open_database(read_only=True)
    get = reader.namespace("default").fast_get
    assert get(b"a") == b"1"
    put(writer, {b"a": b"2"})
    put(writer, numbered(5000, 1000))
    assert reader.namespace("default").get(b"a") == b"1"
    assert scanned(reader.namespace("default")) == [(b"a", b"1")]
    assert scanned(writer.namespace("default"))[-1] == (b"a", b"2")


def test_a_map_that_another_process_made_larger(open_database: OpenDatabase) -> None:
    first = open_database(map_size_bytes=SMALL)
    put(first, {b"a": b"1"})
    first.close()
    old = open_database(read_only=True, map_size_bytes=SMALL)
    writer = python(
        "database = LMDBEngine({'map_size_bytes': 1 << 26}).open(root, 's')\n"
        "rows = [b'%08d' % n for n in range(5000)]\n"
        "database.write({'default': Rows(rows, [bytes(1000)] * 5000)})\n"
        "database.close()\n",
        old.path.parent.parent,
    )
    output_of(writer)
    new = open_database(read_only=True, map_size_bytes=SMALL)
    assert len(scanned(new.namespace("default"))) == 5001
    assert scanned(old.namespace("default")) == [(b"a", b"1")]


def test_a_random_life_in_a_map_that_is_always_too_small(open_database: OpenDatabase) -> None:
    random_ = random.Random(5)
    database = open_database(map_size_bytes=1 << 17)
    space, model, moments = database.namespace("default"), {}, []
    for _ in range(300):
        keys = sorted({b"%03d" % random_.randrange(400) for _ in range(random_.randrange(1, 20))})
        values = [
            None if random_.random() < 0.3 else random_.randbytes(random_.choice([3, 900, 30_000]))
            for _ in keys
        ]
        database.write({"default": Rows(keys, list(values))})
        model.update(zip(keys, values, strict=True))
        if random_.random() < 0.05:
            moments.append((space.scan(), sorted((k, v) for k, v in model.items() if v)))
    assert size_of(database) > 1 << 17
    moments.append((space.scan(), sorted((k, v) for k, v in model.items() if v)))
    for scan, wanted in moments:
        assert flat(scan) == wanted


def test_without_address_space_nothing_of_the_batch_is_written(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(map_size_bytes=SMALL)
    put(database, {b"a": b"1"})
    monkeypatch.setattr(native, "_can_be_reserved", lambda _: False)
    with pytest.raises(StorageFullError, match="ulimit -v"):
        put(database, {b"a": b"2", **numbered(5000, 1000)})
    assert scanned(database.namespace("default")) == [(b"a", b"1")]
    monkeypatch.undo()
    put(database, {b"a": b"2", **numbered(5000, 1000)})
    assert database.namespace("default").get(b"a") == b"2"


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
database = LMDBEngine().open(root, 's')
keys = [b'%08d' % n for n in range(3000)]
for _ in range(20):
    database.write({'default': Rows(keys, [os.urandom(10_000)] * 3000)})
print(sum(len(keys) for keys, _ in database.namespace('default').scan()))
database.close()
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="no limit of address space")
def test_a_process_with_little_address_space_takes_what_there_is(tmp_path: Path) -> None:
    process = python(LIMITED, tmp_path)
    output, _ = process.communicate(timeout=100)
    assert (process.returncode, output) == (0, "3000\n")


@pytest.mark.parametrize("name", ["x" * 600, "", "a\0b"])
def test_a_name_that_lmdb_has_no_place_for(database: LMDBDatabase, name: str) -> None:
    with pytest.raises(SpecError, match="cannot have a namespace named"):
        database.namespace(name)
    assert database.namespaces() == ["default"]


def test_more_namespaces_than_allowed(open_database: OpenDatabase) -> None:
    database = open_database(max_namespaces=4)
    for number in range(3):
        database.namespace(f"n{number}")
    with pytest.raises(EngineError, match="max_namespaces"):
        database.namespace("n3")
    put(database, {b"a": b"1"}, "n2")
