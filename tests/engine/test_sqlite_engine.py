"""The engine that docs/extending/engine.md builds, taken from the page and held to the contract."""

import atexit
import importlib.util
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import CorruptionError, EngineLockedError, StorageFullError
from tests.support.pages import source

PAGE = "extending/engine.md"
SITE = Path(tempfile.mkdtemp(prefix="kstore-sqlite-"))
atexit.register(shutil.rmtree, SITE, ignore_errors=True)


def load_module():
    path = SITE / "kstore_sqlite.py"
    path.write_text(source(PAGE, path.name), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SQLiteEngine = load_module().SQLiteEngine
exec(source(PAGE, "test_kstore_sqlite.py"))  # the suites, as the page shows them


@pytest.fixture(autouse=True, scope="module")
def _where_other_processes_find_it():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        yield


@pytest.fixture
def database(tmp_path):
    with_rows = SQLiteEngine().open(tmp_path, "orders")
    with_rows.write({"default": Rows([b"a", b"b"], [b"1" * 5000, b"2" * 5000])})
    yield with_rows
    with_rows.close()


def test_a_full_disk_loses_nothing(database):
    (pages,) = database.query("PRAGMA page_count")[0]
    database.query(f"PRAGMA max_page_count = {pages + 2}")
    big = Rows([b"a", b"c"], [b"changed", b"3" * 100_000])
    with pytest.raises(StorageFullError, match=r"orders.*full"):
        database.write({"default": big})
    assert database.namespace("default").get(b"a") == b"1" * 5000
    database.query("PRAGMA max_page_count = 100000")
    database.write({"default": big})
    assert database.namespace("default").get(b"c") == b"3" * 100_000


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database_is_corrupt(database, tmp_path, read_only):
    database.close()
    database.path.write_bytes(b"not a database, whatever else it may be" * 100)
    with pytest.raises(CorruptionError, match=r"orders.*not a database"):
        SQLiteEngine().open(tmp_path, "orders", read_only=read_only)


def test_damage_within_is_corrupt(database, tmp_path):
    keys = [b"%06d" % number for number in range(2000)]
    database.write({"default": Rows(keys, [b"v" * 200] * len(keys))})
    database.close()
    data = bytearray(database.path.read_bytes())
    for page in range(4096 * 2, len(data), 4096):
        data[page : page + 100] = b"\xee" * 100
    database.path.write_bytes(data)
    damaged = SQLiteEngine().open(tmp_path, "orders", read_only=True)
    with pytest.raises(CorruptionError, match=r"orders.*malformed"):
        list(damaged.namespace("default").scan())
    damaged.close()


def test_somebody_elses_transaction_is_waited_for_and_then_refused(database):
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(EngineLockedError, match=r"orders.*locked"):
        database.write({"default": Rows([b"a"], [b"changed"])})
    other.execute("ROLLBACK")
    other.close()
    database.write({"default": Rows([b"a"], [b"changed"])})
    assert database.namespace("default").get(b"a") == b"changed"


def test_durability_is_sqlites(tmp_path):
    for level, synchronous in (("process", 1), ("changelog", 1), ("power", 2)):
        database = SQLiteEngine().open(tmp_path, level, durability=level)
        assert database.query("PRAGMA synchronous") == [(synchronous,)]
        assert database.query("PRAGMA journal_mode") == [("wal",)]
        database.close()
        assert [path.name for path in sorted(database.path.parent.iterdir())] == ["lock", "rows.db"]


def test_names_of_namespaces_mind_case(database):
    for name in ("a", "A"):
        database.namespace(name)
        database.write({name: Rows([b"k"], [name.encode()])})
    assert database.namespace("a").get(b"k") == b"a"
    assert sorted(database.namespaces()) == ["A", "a", "default"]
