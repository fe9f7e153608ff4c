"""Children: the databases of a window or session store, one a segment, where Kafka has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import CorruptionError, EngineError, EngineLockedError, SpecError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.errors import translate
from kstore_rocksdb.files import readonly
from tests.plugins.rocksdb.support import put, scanned
from tests.support.golden import unpack

ENGINE = RocksDBEngine()


def make(root: Path, child: str, *rows: tuple[bytes, bytes]) -> None:
    database = ENGINE.open_child(root, "w", child)
    try:
        assert database.path == root / "w" / child
        put(database, dict(rows))
    finally:
        database.close()


def test_children_are_listed_opened_and_independent(tmp_path: Path) -> None:
    assert ENGINE.children(tmp_path, "w") == []
    make(tmp_path, "w.20", (b"k", b"20"))
    make(tmp_path, "w.10", (b"k", b"10"))
    (tmp_path / "w" / "a file").write_text("x")
    assert ENGINE.children(tmp_path, "w") == ["w.10", "w.20"]
    assert ENGINE.stores(tmp_path) == []
    database = ENGINE.open_child(tmp_path, "w", "w.10", read_only=True)
    assert scanned(database.namespace("default")) == [(b"k", b"10")]
    database.close()
    with pytest.raises(FileNotFoundError):
        ENGINE.open_child(tmp_path, "w", "w.30", read_only=True)


def test_a_dropped_child_is_gone_and_what_a_killed_drop_left_goes_with_it(tmp_path: Path) -> None:
    make(tmp_path, "w.10")
    make(tmp_path, "w.20")
    (tmp_path / ".kstore-dropped~").mkdir()
    (tmp_path / "w" / "w.10").rename(tmp_path / ".kstore-dropped~" / "w.10")  # killed just here
    assert ENGINE.children(tmp_path, "w") == ["w.20"]
    assert ENGINE.parents(tmp_path) == ["w"]
    ENGINE.drop_child(tmp_path, "w", "w.20")
    assert [path.name for path in tmp_path.rglob("*")] == ["w"]
    with pytest.raises(KeyError):
        ENGINE.drop_child(tmp_path, "w", "w.20")


def test_a_directory_that_may_not_be_read_hides_no_other_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "w.10")
    (tmp_path / "closed").mkdir()
    list_names = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return list_names(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert ENGINE.parents(tmp_path) == ["closed", "w"]
    assert ENGINE.children(tmp_path, "w") == ["w.10"]
    with pytest.raises(EngineError, match=r"cannot be read: .* run this program as a user who may"):
        ENGINE.children(tmp_path, "closed")


def test_an_open_child_is_neither_dropped_nor_renamed(tmp_path: Path) -> None:
    database = ENGINE.open_child(tmp_path, "w", "w.10")
    with pytest.raises(EngineLockedError):
        ENGINE.drop_child(tmp_path, "w", "w.10")
    with pytest.raises(EngineLockedError):
        ENGINE.rename_child(tmp_path, "w", "w.10", "w.11")
    database.close()
    ENGINE.drop_child(tmp_path, "w", "w.10")


def test_a_child_is_renamed_unless_the_name_is_taken(tmp_path: Path) -> None:
    make(tmp_path, "w:10", (b"k", b"v"))
    make(tmp_path, "w.20")
    ENGINE.rename_child(tmp_path, "w", "w:10", "w.10")
    assert ENGINE.children(tmp_path, "w") == ["w.10", "w.20"]
    with pytest.raises(FileExistsError):
        ENGINE.rename_child(tmp_path, "w", "w.10", "w.20")
    with pytest.raises(KeyError):
        ENGINE.rename_child(tmp_path, "w", "w:10", "w.30")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../w"])
def test_a_child_lies_inside_of_its_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name of a directory"):
        ENGINE.open_child(tmp_path, "w", name)


def test_the_folder_of_the_other_stores_has_no_children(tmp_path: Path) -> None:
    ENGINE.open(tmp_path, "s").close()
    assert ENGINE.parents(tmp_path) == []
    with pytest.raises(SpecError, match="another name"):
        ENGINE.children(tmp_path, "rocksdb")
    with pytest.raises(SpecError, match="another name"):
        ENGINE.open_child(tmp_path, "rocksdb", "rocksdb.0")


def test_a_name_may_begin_with_a_dot(tmp_path: Path) -> None:
    ENGINE.open_child(tmp_path, ".w", ".w.10").close()
    assert ENGINE.children(tmp_path, ".w") == [".w.10"]
    assert ENGINE.parents(tmp_path) == [".w"]


def test_kafkas_segments_are_children(tmp_path: Path) -> None:
    root = unpack("window_headers", tmp_path)
    names = ENGINE.children(root, "window_headers")
    assert names
    assert all(name.startswith("window_headers.") for name in names)
    database = ENGINE.open_child(root, "window_headers", names[0], read_only=True)
    assert "keyValueWithTimestampAndHeaders" in database.namespaces()
    database.close()


def test_a_child_that_has_lost_its_current_file_is_no_dropped_one(tmp_path: Path) -> None:
    make(tmp_path, "w.10", (b"k", b"10"))
    (tmp_path / "w" / "w.10" / "CURRENT").unlink()
    for read_only in (True, False):
        with pytest.raises(CorruptionError, match="lost its CURRENT"):
            ENGINE.open_child(tmp_path, "w", "w.10", read_only=read_only)


def test_a_child_that_is_dropped_while_it_is_opened_for_reading_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "w.10", (b"k", b"10"))

    def fill(scratch: Path, source: Path) -> None:
        ENGINE.drop_child(tmp_path, "w", "w.10")

    monkeypatch.setattr(readonly, "_fill", fill)
    with pytest.raises(FileNotFoundError):
        ENGINE.open_child(tmp_path, "w", "w.10", read_only=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_what_cannot_be_opened_is_named_with_a_command_that_works(
    tmp_path: Path, read_only: bool
) -> None:
    root = tmp_path / "a b"
    make(root, "w.10", (b"k", b"10"))
    (root / "w" / "w.10" / "CURRENT").write_text("rubbish")
    with pytest.raises(CorruptionError) as caught:
        ENGINE.open_child(root, "w", "w.10", read_only=read_only)
    assert str(caught.value).endswith(f"kstore inspect '{root}'")
    assert "kstore-read-" not in str(caught.value)


@pytest.mark.parametrize(("name", "why"), [("rocksdb", "without segments"), ("x" * 242, "at most")])
def test_a_store_whose_children_have_no_place_is_refused_when_it_is_opened(
    tmp_path: Path, name: str, why: str
) -> None:
    with open_state(tmp_path, engine=ENGINE) as state, pytest.raises(SpecError, match=why):
        state.open(stores.window(name, 10, 1))
    with open_state(tmp_path, engine=ENGINE) as state:
        store = state.open(stores.window("x" * 241, 10, 1))
        store.put(b"k", b"v", window_start=1_700_000_000_000)
    with pytest.raises(SpecError, match="kstore locks a state directory"):
        stores.window(".kstore.lock", 10, 1)


def test_too_many_open_files_says_what_to_do() -> None:
    error = translate(Exception("IO error: Too many open files"), "open it", Path("/p/w/w.1"))
    assert type(error) is EngineError
    assert "ulimit -n" in str(error)
    assert "max_open_files" in str(error)
