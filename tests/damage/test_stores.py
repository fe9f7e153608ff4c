"""Every file of a store is damaged, at many places, and the store is read.

What comes of it is an error of kstore's or what was written, whole; of a write-ahead log that was
cut, what was committed up to some commit. Never another answer, a shorter one, or a dead process.
LMDB has no checksums: what of it is told is in docs/engines/lmdb.md, and what is told of the rest
by ``kstore verify`` is held here too.

``KSTORE_DAMAGE=20`` multiplies the cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core.maintenance.verify import verify
from kstore_lmdb import LMDBEngine
from tests.damage.homes import SPECS
from tests.damage.made import SAMPLES, SEED, Home, made
from tests.damage.trials import Damage, Outcome, Reader, copied, files_of, samples


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as reading:
        yield reading


def read(reader: Reader, home: Home, damage: Damage, *, read_only: bool) -> tuple[Path, Outcome]:
    """What comes of reading a copy with one damage."""
    root = copied(home.root, home.root.with_name("damaged") / "0_0")
    damage.do(root)
    outcome = reader.read(kind=home.kind, engine=home.engine, path=str(root), read_only=read_only)
    return root, outcome


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS)
def test_rocksdb(tmp_path: Path, reader: Reader, kind: str) -> None:
    home = made(kind, "rocksdb", tmp_path)
    assert any(file.suffix == ".log" for file in files_of(home.root)), "a write-ahead log"
    seen: Counter[str] = Counter()
    for damage in home.damages(SAMPLES):
        for read_only in (False, True):
            _, outcome = read(reader, home, damage, read_only=read_only)
            where = f"{damage}, read_only={read_only}: {outcome}"
            assert outcome.died is None, where
            assert outcome.untyped is None, where
            if outcome.read is None:
                assert outcome.error in ("CorruptionError", "SpecError", "StateError"), where
                seen["error"] += 1
            elif outcome.read == home.commits[-1]:
                seen["right"] += 1
            else:
                assert damage.file.suffix == ".log", f"a wrong answer: {where}"
                assert outcome.read in home.commits, f"no prefix of commits: {where}"
                seen["prefix"] += 1
    assert min(seen["error"], seen["right"], seen["prefix"]) > 0, seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS)
def test_lmdb(tmp_path: Path, reader: Reader, kind: str) -> None:
    """A file that was cut is always told of; of flipped bits, what ends the reader is."""
    home = made(kind, "lmdb", tmp_path)
    (data,) = [file for file in files_of(home.root) if file.name == "data.mdb"]
    seen: Counter[str] = Counter()
    for damage in samples(home.root, data, 8 * SAMPLES, SEED):
        for read_only in (False, True):
            root, outcome = read(reader, home, damage, read_only=read_only)
            where = f"{damage}, read_only={read_only}: {outcome}"
            assert outcome.untyped is None, where
            if outcome.read == home.commits[-1]:
                seen["right"] += 1
            elif outcome.error is not None:
                seen["error"] += 1
            else:
                assert damage.what == "flip", f"cut, and not told of: {where}"
                seen["died" if outcome.died else "wrong"] += 1
                if outcome.died:
                    assert verify(root, engine="lmdb").exit_code == 4, where
    assert seen["error"] > 0, seen


def test_flips_in_the_heads_of_pages_are_found_by_verify(tmp_path: Path) -> None:
    """In what LMDB goes by: a page's number, its kind, and where its rows are."""
    home = made("orders", "lmdb", tmp_path)
    (data,) = [file for file in files_of(home.root) if file.name == "data.mdb"]
    engine = LMDBEngine()

    def is_found(page: int, at: int) -> bool:
        root = copied(home.root, tmp_path / "damaged" / "0_0")
        Damage("flip", data, page * 4096 + at, 1).do(root)
        return any(engine.file_faults(root, "orders"))

    pages = range(2, (home.root / data).stat().st_size // 4096)
    in_use = [page for page in pages if is_found(page, 0)]
    assert in_use
    assert all(is_found(page, at) for page in in_use for at in (3, 7, 10, 12))
    root = copied(home.root, tmp_path / "damaged" / "0_0")
    Damage("flip", data, in_use[-1] * 4096 + 10, 1).do(root)
    assert verify(root, engine="lmdb").exit_code == 4
