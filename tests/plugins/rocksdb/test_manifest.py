"""A manifest that was cut: RocksDB takes it for an older one, and drops what came later."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from kstore_core.errors import CorruptionError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.files.manifest import check_manifest, file_faults, read_manifest
from tests.plugins.rocksdb.support import numbered, put, python, scanned
from tests.support.golden import GOLDEN, unpack

WRITER = """
database = RocksDBEngine().open(root, "s")
database.namespace("rows")
number = 0
for commit in range(8):
    keys = [b"%06d" % (number + i) for i in range(100)]
    database.write({"rows": Rows(keys, [b"v" * 200] * 100)})
    number += 100
    if commit in (3, 6):
        database._flush()
print(number, flush=True)
time.sleep(60)
"""


def killed(root: Path) -> Path:
    """A database that has flushed twice, of a process that was killed."""
    with python(WRITER, root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "800\n"
        process.kill()
    path = root / "rocksdb" / "s"
    assert read_manifest(path).files, "a flush"
    return path


@pytest.mark.parametrize("read_only", [False, True])
def test_a_manifest_that_was_cut_anywhere(tmp_path: Path, read_only: bool) -> None:
    path = killed(tmp_path / "whole")
    name = (path / "CURRENT").read_text().strip()
    size = (path / name).stat().st_size
    seen: Counter[str] = Counter()
    for length in [*range(0, size, 1 + size // 40), size]:
        root = tmp_path / "cut"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", root, ignore=shutil.ignore_patterns("LOG*"))
        os.truncate(root / "rocksdb" / "s" / name, length)
        try:
            database = RocksDBEngine().open(root, "s", read_only=read_only)
        except CorruptionError:
            seen["error"] += 1
            assert list(RocksDBEngine().file_faults(root, "s"))
            assert (root / "rocksdb" / "s" / name).stat().st_size == length
        else:
            rows = scanned(database.namespace("rows"))
            database.close()
            assert [key for key, _ in rows] == [b"%06d" % number for number in range(800)], length
            seen["right"] += 1
    assert seen["right"] >= 1, "the whole one"
    assert seen["error"] > 20


def test_families_and_files_are_named(tmp_path: Path) -> None:
    path = killed(tmp_path)
    manifest = path / (path / "CURRENT").read_text().strip()
    whole = manifest.read_bytes()
    reasons = set()
    for length in range(80, len(whole)):
        manifest.write_bytes(whole[:length])
        try:
            check_manifest(path)
        except CorruptionError as error:
            reasons.add(str(error).split("has lost its end: ")[1].split(" list ")[0])
    assert {reason.split("-")[0] for reason in reasons} == {"OPTIONS", "the manifest does not"}
    manifest.write_bytes(whole)
    assert file_faults(path) == []


def test_tables_that_are_missing_or_cut(tmp_path: Path) -> None:
    database = RocksDBEngine().open(tmp_path, "s")
    put(database, numbered(1000))
    database.close()
    (table,) = database.path.glob("*.sst")
    size = table.stat().st_size
    os.truncate(table, 100)
    assert file_faults(database.path) == [f"{table.name} has 100 bytes, but must have {size} bytes"]
    table.unlink()
    assert file_faults(database.path) == [f"{table.name} is missing, but must have {size} bytes"]
    (database.path / "CURRENT").write_text("rubbish")
    assert "manifest cannot be read" in file_faults(database.path)[0]


@pytest.mark.parametrize(
    "archive", sorted((GOLDEN / "dirs").glob("*.tar.gz")), ids=lambda p: p.name
)
def test_those_of_kafka_streams_are_sound(tmp_path: Path, archive: Path) -> None:
    root = unpack(archive.name.removesuffix(".tar.gz"), tmp_path)
    databases = [current.parent for current in root.rglob("CURRENT")]
    assert databases
    for path in databases:
        assert file_faults(path) == []
        assert read_manifest(path).families[0].name == "default"


def test_a_copy_of_a_live_database_is_sound(tmp_path: Path) -> None:
    engine = RocksDBEngine({"write_buffer_bytes": 65536})
    database = engine.open(tmp_path, "s")
    put(database, numbered(1000, 100))
    database.checkpoint(tmp_path / "copy")
    put(database, numbered(1000, 100, start=1000))
    assert file_faults(database.path) == []
    database.close()
    assert file_faults(tmp_path / "copy") == []


def test_a_manifest_that_has_lost_a_drop(tmp_path: Path) -> None:
    """The family would come back, with the rows that the log has of it."""
    path = dropped(tmp_path, again=False)
    assert "was dropped" in lost_end(path, tmp_path / "cut")


def test_a_manifest_that_has_lost_the_second_family_of_a_name(tmp_path: Path) -> None:
    path = dropped(tmp_path, again=True)
    assert "has lost its end: " in lost_end(path, tmp_path / "cut")


def test_a_drop_or_a_new_family_before_its_options_file_was_written(tmp_path: Path) -> None:
    """Killed in between, the newest options file is of before, and proves nothing."""
    path = dropped(tmp_path, again=True)
    for _ in range(2):  # that of after the second family, and of after the drop
        max(path.glob("OPTIONS-*")).unlink()
        assert file_faults(path) == []


def test_an_options_file_that_was_cut_does_not_accuse_the_manifest(tmp_path: Path) -> None:
    path = dropped(tmp_path, again=True)
    options = max(path.glob("OPTIONS-*"))
    text = options.read_bytes()
    ends = {match.start() + 1 for match in re.finditer(rb"\n\[CFOptions", text)}
    lines = {match.end() for match in re.finditer(rb"\n", text)}
    assert len(ends) == 3
    for length in sorted({*range(0, len(text), 97), *sorted(lines)[::9]} - ends):
        options.write_bytes(text[:length])
        assert file_faults(path) == [], length


def dropped(root: Path, *, again: bool) -> Path:
    """A database as a kill leaves it, a family of which was dropped with rows in the log."""
    database = RocksDBEngine().open(root / "live", "s")
    for name in ("first", "gone"):
        database.namespace(name)
        put(database, numbered(10), name)
    database.drop_namespace("gone")
    if again:
        database.namespace("gone")
        put(database, numbered(3), "gone")
    shutil.copytree(database.path, root / "killed", ignore=shutil.ignore_patterns("LOCK", "LOG*"))
    database.close()
    assert file_faults(root / "killed") == []
    return root / "killed"


def lost_end(path: Path, target: Path) -> str:
    """What is said of every manifest that knows the dropped family, and not that it was dropped."""
    said = set()
    name = (path / "CURRENT").read_text().strip()
    whole = (path / name).read_bytes()
    for length in range(len(whole)):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(path, target)
        (target / name).write_bytes(whole[:length])
        try:
            manifest = read_manifest(target)
        except (ValueError, IndexError):
            continue
        names = [family.name for family in manifest.families.values()]
        if "gone" in names and not manifest.dropped:
            said.add(" ".join(file_faults(target)))
    assert said
    assert all("has lost its end" in text for text in said)
    return max(said)
