"""Manifests of random lives: a whole one is sound after each step, and each damage is found.

A life is of families that are made, written, dropped and made again under the same name, of
checkpoints (which flush all families at once), compactions and reopens, and ends with a close or a
kill. What is looked at ends in an image of the directory as it is then.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Checkpoint, Options, Rdict, WriteBatch

from kstore_rocksdb.files.manifest import file_faults, read_manifest

NAMES = ("a", "b", r"c#\:", "ü")
OFFSETS = "offsets"
CUTS = 10
SEEDS = 16


class Native:
    """A database of the binding, with every family's handle."""

    def __init__(self, path: Path, *, blobs: bool) -> None:
        self._path = path
        self._blobs = blobs
        self._open()

    def _open(self) -> None:
        path = str(self._path)
        names = Rdict.list_cf(path) if (self._path / "CURRENT").exists() else ["default"]
        self.root = Rdict(path, self._options(), {name: self._options() for name in names})
        self.families = {name: self.root.get_column_family(name) for name in names}

    def _options(self) -> Options:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_atomic_flush(True)
        if self._blobs:
            options.set_enable_blob_files(True)
            options.set_min_blob_size(100)
            options.set_enable_blob_gc(True)
            options.set_blob_gc_age_cutoff(1.0)
        return options

    def make(self, name: str) -> None:
        self.families[name] = self.root.create_column_family(name, self._options())

    def drop(self, name: str) -> None:
        del self.families[name]
        self.root.drop_column_family(name)

    def write(self, name: str, rows: dict[bytes, bytes | None], count: int) -> None:
        """Rows of a family, and in the same batch how many batches there were."""
        batch = WriteBatch(raw_mode=True)
        family = self.root.get_column_family_handle(name)
        for key, value in rows.items():
            if value is None:
                batch.delete(key, family)
            else:
                batch.put(key, value, family)
        batch.put(b"n", b"%06d" % count, self.root.get_column_family_handle(OFFSETS))
        self.root.write(batch)

    def compact(self, name: str) -> None:
        self.families[name].compact_range(None, None)

    def checkpoint(self, target: Path) -> None:
        Checkpoint(self.root).create_checkpoint(str(target))

    def rows(self) -> dict[str, dict[bytes, bytes]]:
        return {name: dict(family.items()) for name, family in self.families.items()}

    def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        """As the engine does it: the offsets are flushed last."""
        families = sorted(self.families.items(), key=lambda item: item[0] == OFFSETS)
        self.families = {}
        for _, family in families:
            family.flush()
        for _, family in families:
            family.close()
        self.root.close()


def live(path: Path, chosen: random.Random, *, blobs: bool) -> Counter[str]:
    """Lead a life, and leave its image in ``path/image``."""
    done: Counter[str] = Counter()
    database = Native(path / "db", blobs=blobs)
    database.make(OFFSETS)
    for step in range(chosen.randint(8, 20)):
        made = sorted({*database.families} & {*NAMES})
        free = sorted({*NAMES} - {*made})
        some = chosen.choice(["default", *made])
        does = chosen.choice(
            [*["make", "drop"] * 2, *["write"] * 4, "compact", "reopen", "checkpoint"]
        )
        if does == "make" and free:
            database.make(chosen.choice(free))
        elif does == "drop" and made:
            database.drop(chosen.choice(made))
        elif does == "write":
            database.write(some, some_rows(chosen), step)
        elif does == "compact":
            database.compact(some)
        elif does == "reopen":
            database.reopen()
        elif does == "checkpoint":
            database.checkpoint(path / f"copy{step}")
            assert file_faults(path / f"copy{step}") == []
        done[does] += 1
        assert file_faults(path / "db") == [], (does, done)
        manifest = read_manifest(path / "db")
        assert {family.name for family in manifest.families.values()} == {*database.families}
    if closed := chosen.random() < 0.4:
        database.close()
    image(path / "db", path / "image")
    if not closed:
        database.close()
    return done


def some_rows(chosen: random.Random) -> dict[bytes, bytes | None]:
    return {
        b"%03d" % chosen.randrange(60): None
        if chosen.random() < 0.2
        else os.urandom(chosen.choice([10, 400]))
        for _ in range(chosen.randint(1, 30))
    }


def image(path: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target, ignore=shutil.ignore_patterns("LOCK", "LOG*"))
    return target


def rows_of(path: Path, *, blobs: bool) -> dict[str, dict[bytes, bytes]]:
    with closing(Native(path, blobs=blobs)) as database:
        return database.rows()


def ends_of_records(manifest: bytes) -> list[int]:
    """Where records end, in a manifest of less than a block."""
    at, ends = 0, []
    while at < len(manifest):
        at += 7 + int.from_bytes(manifest[at + 4 : at + 6], "little")
        ends.append(at)
    return ends


@pytest.mark.parametrize("blobs", [False, True], ids=["tables", "blobs"])
def test_random_lives(tmp_path: Path, blobs: bool) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        chosen = random.Random(f"{seed}{blobs}")
        path = tmp_path / str(seed)
        path.mkdir()
        seen += live(path, chosen, blobs=blobs)
        whole, damaged = path / "image", path / "damaged"
        assert file_faults(whole) == [], seed
        manifest = read_manifest(whole)
        for name, size in manifest.live.items():
            (image(whole, damaged) / name).unlink()
            assert f"{name} is missing, but must have {size} bytes" in file_faults(damaged)
            os.truncate(image(whole, damaged) / name, size // 2)
            assert f"{name} has {size // 2} bytes, but must have {size} bytes" in file_faults(
                damaged
            )
            seen[name[-4:]] += 1
        seen["dropped"] += len(manifest.dropped)
        wanted = rows_of(image(whole, damaged), blobs=blobs)
        file = (whole / "CURRENT").read_text().strip()
        data = (whole / file).read_bytes()
        cuts = {*ends_of_records(data)[:-1], *chosen.sample(range(len(data)), 4)}
        for cut in chosen.sample(sorted(cuts), min(CUTS, len(cuts))):
            (image(whole, damaged) / file).write_bytes(data[:cut])
            seen[cut_found(damaged, wanted, blobs=blobs)] += 1
        shutil.rmtree(path)
    assert min(seen[does] for does in ("make", "drop", "compact", "reopen", "checkpoint")) > 9
    assert seen["dropped"] > 9, "drops that the last manifest has"
    assert seen[".sst"] > 9
    assert (seen["blob"] > 9) == blobs
    assert seen["found"] > 5 * (seen["refused"] + seen["harmless"]) > 0, seen


def cut_found(damaged: Path, wanted: dict[str, dict[bytes, bytes]], *, blobs: bool) -> str:
    """How a cut manifest was noticed, or that opening it did no harm."""
    if file_faults(damaged):
        return "found"
    try:
        rows = rows_of(damaged, blobs=blobs)
    except Exception:  # noqa: BLE001 - the binding has no other
        return "refused"
    behind = rows.get(OFFSETS, {}).get(b"n", b"") < wanted[OFFSETS].get(b"n", b"")
    assert rows == wanted or behind, "short, with the offsets of the whole one"
    return "harmless"
