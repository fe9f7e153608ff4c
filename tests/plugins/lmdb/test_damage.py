"""Files that are too short, lost, or not LMDB's: an error, and never the end of the process."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb
import pytest

from kstore_core.engine import Rows
from kstore_core.errors import CorruptionError
from kstore_lmdb import LMDBEngine
from kstore_lmdb.errors import translate
from kstore_lmdb.files import data_bytes
from tests.plugins.lmdb.conftest import OpenDatabase
from tests.plugins.lmdb.support import numbered, put, python, scanned

READER = """
from kstore_core.errors import CorruptionError
for line in sys.stdin:
    length, read_only = map(int, line.split())
    os.truncate(root / 'lmdb' / 's' / 'data.mdb', length)
    try:
        database = LMDBEngine({'format_version': sys.argv[2]}).open(root, 's', read_only=read_only)
        rows = sum(len(keys) for keys, _ in database.namespace('default').scan())
        database.close()
        print(rows, flush=True)
    except CorruptionError:
        print('corrupt', flush=True)
"""


@pytest.mark.parametrize("form", ["0.9", "1.0"])
def test_a_file_cut_anywhere_is_an_error(
    open_database: OpenDatabase, tmp_path: Path, form: str
) -> None:
    """In a child, which a page that is missing would kill."""
    database = open_database(format_version=form)
    put(database, numbered(3000, 100))
    put(database, {b"large": bytes(100_000)})
    data = database.path / "data.mdb"
    database.close()
    whole = data.read_bytes()
    random_ = random.Random(7)
    lengths = [0, 1, 15, 100, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 12_288]
    lengths += [len(whole) - 1, len(whole) - 4096, len(whole) - 4097]
    lengths += [random_.randrange(len(whole)) for _ in range(30)]
    with python(READER, tmp_path, form) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for read_only in (0, 1):
            for length in lengths:
                data.write_bytes(whole)
                child.stdin.write(f"{length} {read_only}\n")
                child.stdin.flush()
                assert child.stdout.readline() == "corrupt\n", length
                assert data.stat().st_size == length
        data.write_bytes(whole)
        child.stdin.write(f"{len(whole)} 0\n")
        child.stdin.close()
        assert child.stdout.readline() == "3001\n"
    assert child.returncode == 0


def random_batch(random_: random.Random) -> Rows:
    """Deletes and overwrites rows small and large, runs of them too."""
    count, size = random_.choice([1, 10, 200, 2000]), random_.choice([1, 100, 3000, 30_000])
    low = random_.randrange(3000)
    ends = (b"%05d" % low, b"%05d" % (low + count))
    if random_.random() < 0.5:
        keys = [b"%05d" % number for number in range(low, low + count)]
        value = bytes(size if count < 2000 else 100)
        kind = random_.randrange(3)
        if kind == 2:
            return Rows(deleted_ranges=[ends])
        return Rows(keys, [value if kind == 0 else None] * count)
    keys = sorted({b"%05d" % random_.randrange(3000) for _ in range(random_.choice([1, 30, 500]))})
    values = [
        None if random_.random() < 0.5 else bytes(random_.choice([1, 500, 5000, 60_000]))
        for _ in keys
    ]
    return Rows(keys, list(values), [ends] if random_.random() < 0.3 else [])


def test_a_file_that_ends_before_pages_that_are_free_is_whole(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB does not write a page that was allocated and freed within one transaction."""
    monkeypatch.setattr("kstore_lmdb.environment.Environment.lengthen_file", lambda *_: None)
    for seed in range(500):
        random_, store = random.Random(seed), f"s{seed}"
        database = open_database(store)
        native, data = database._environment.native, database.path / "data.mdb"
        for _ in range(20):
            database.write({"default": random_batch(random_)})
            if data.stat().st_size < data_bytes(native):
                break
        else:
            database.close()
            continue
        break
    else:
        pytest.fail("no such file was made")
    rows = scanned(database.namespace("default"))
    database.close()
    monkeypatch.undo()
    reader = open_database(store, read_only=True)
    assert scanned(reader.namespace("default")) == rows
    reader.close()
    database = open_database(store)
    assert scanned(database.namespace("default")) == rows
    put(database, {b"x": b"y"})
    assert data.stat().st_size >= data_bytes(database._environment.native)


def test_a_directory_that_lost_its_data(open_database: OpenDatabase, tmp_path: Path) -> None:
    database = open_database()
    database.close()
    (database.path / "data.mdb").unlink()
    with pytest.raises(CorruptionError, match=r"has lost its data\.mdb"):
        LMDBEngine().open(tmp_path, "s")
    with pytest.raises(CorruptionError, match=r"has lost its data\.mdb"):
        LMDBEngine().open(tmp_path, "s", read_only=True)
    assert LMDBEngine().stores(tmp_path) == ["s"], "it is not left out in silence"
    assert sorted(entry.name for entry in database.path.iterdir()) == ["lock.mdb"]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("content", [b"", b"not a database " * 1000, bytes(8192)])
def test_a_file_that_is_not_of_lmdb(tmp_path: Path, content: bytes, read_only: bool) -> None:
    path = tmp_path / "lmdb" / "s"
    path.mkdir(parents=True)
    (path / "data.mdb").write_bytes(content)
    with pytest.raises(CorruptionError, match="has no LMDB data"):
        LMDBEngine().open(tmp_path, "s", read_only=read_only)
    assert (path / "data.mdb").read_bytes() == content


def test_a_format_that_no_release_wrote(open_database: OpenDatabase) -> None:
    database = open_database()
    database.close()
    data = database.path / "data.mdb"
    content = data.read_bytes()
    at = content.index((0xBEEFC0DE).to_bytes(4, "little")) + 4
    data.write_bytes(content[:at] + (2).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(CorruptionError, match="data format 2"):
        open_database()


def test_damage_within_a_transaction_is_translated(open_database: OpenDatabase) -> None:
    """A page whose head is gone is found by LMDB itself."""
    database = open_database()
    put(database, numbered(3000, 100))
    put(database, dict.fromkeys(numbered(10)))
    database.close()
    data = database.path / "data.mdb"
    content = bytearray(data.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 + 8 : page * 4096 + 16] = b"\xff" * 8
    data.write_bytes(content)
    for use in (
        lambda database: list(database.namespace("default").scan()),
        lambda database: database.write({"default": Rows([b"a"], [b"1"])}),
    ):
        with pytest.raises(CorruptionError, match="kstore inspect"):
            use(open_database())


def test_the_command_in_an_error_is_one_for_a_shell(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    error = translate(lmdb.CorruptedError("x"), "read", root / "lmdb" / "s")
    assert str(error).endswith(f"kstore inspect '{root}'")
    error = translate(lmdb.Error("x"), "read", root)
    assert str(error).endswith(f"kstore inspect '{root}'")
