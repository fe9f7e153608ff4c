"""Environments of other programs: refused, and left as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from kstore_core.errors import InconsistentStateError
from kstore_lmdb import LMDBEngine


@pytest.fixture(params=[False, True], ids=["read-write", "read-only"])
def read_only(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def native(tmp_path: Path) -> Iterator[lmdb.Environment]:
    path = tmp_path / "lmdb" / "s"
    path.mkdir(parents=True)
    with lmdb.open(str(path), max_dbs=4) as environment:
        yield environment


def refused(tmp_path: Path, native: lmdb.Environment, told: str, *, read_only: bool) -> None:
    native.close()
    data = tmp_path / "lmdb" / "s" / "data.mdb"
    before = data.read_bytes()
    with pytest.raises(InconsistentStateError, match=f"another program created .*: .*{told}"):
        LMDBEngine().open(tmp_path, "s", read_only=read_only)
    assert data.read_bytes() == before


@pytest.mark.parametrize("flag", ["dupsort", "integerkey", "reverse_key"])
def test_databases_of_another_order(
    tmp_path: Path, native: lmdb.Environment, flag: str, read_only: bool
) -> None:
    native.open_db(b"default", **{flag: True})  # type: ignore[arg-type]
    native.open_db(b".empty")
    refused(tmp_path, native, f"'default' has the flags {flag}", read_only=read_only)


def test_databases_of_other_names(
    tmp_path: Path, native: lmdb.Environment, read_only: bool
) -> None:
    native.open_db(b"theirs")
    refused(tmp_path, native, "its named databases are theirs", read_only=read_only)


def test_names_that_are_no_text(tmp_path: Path, native: lmdb.Environment, read_only: bool) -> None:
    native.open_db(b"\xff\xff")
    refused(tmp_path, native, "can't decode", read_only=read_only)


def test_rows_beside_databases(tmp_path: Path, native: lmdb.Environment, read_only: bool) -> None:
    native.open_db(b"default")
    with native.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    refused(tmp_path, native, "INCOMPATIBLE", read_only=read_only)
