"""The empty key, which LMDB itself refuses, is a key like any other; so are keys at the limit."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.engine import Rows
from kstore_core.errors import KeyTooLongError
from kstore_lmdb import LMDBEngine
from tests.plugins.lmdb.conftest import OpenDatabase
from tests.plugins.lmdb.support import Pairs, put, scanned

LIMITS = {"0.9": 511, "1.0": 1978}
KEYS = st.sampled_from([b"", b"\0", b"\0\0", b"a", b"a\0", b"b", b"\xff", b"\xff\xff"])


def between(model: dict[bytes, bytes], lo: bytes | None, hi: bytes | None) -> Pairs:
    return [
        (key, model[key])
        for key in sorted(model)
        if (lo is None or lo <= key) and (hi is None or key < hi)
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=5),
            st.lists(st.tuples(KEYS, st.none() | KEYS), max_size=2),
        ),
        max_size=6,
    )
)
def test_every_operation_knows_it(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[dict[bytes, bytes | None], list[tuple[bytes, bytes | None]]]],
) -> None:
    root = tmp_path_factory.mktemp("life")
    database = LMDBEngine().open(root, "s")
    space, other = database.namespace("default"), database.namespace("other")
    put(database, {b"": b"untouched"}, "other")
    model: dict[bytes, bytes] = {}
    moments = []
    for rows, ranges in batches:
        keys = sorted(rows)
        database.write({"default": Rows(keys, [rows[key] for key in keys], list(ranges))})
        for lo, hi in ranges:
            for key, _ in between(model, lo, hi):
                del model[key]
        model.update({key: value for key, value in rows.items() if value is not None})
        for key in [key for key, value in rows.items() if value is None]:
            model.pop(key, None)
        for key in (b"", b"a", b"\0"):
            assert space.get(key) == model.get(key)
        for lo, hi in itertools.product([None, b"", b"\0", b"b"], repeat=2):
            wanted = between(model, lo, hi)
            assert scanned(space, lo, hi) == wanted
            assert scanned(space, lo, hi, reverse=True) == wanted[::-1]
            assert space.first(lo, hi) == (wanted[0] if wanted else None)
            assert space.first(lo, hi, reverse=True) == (wanted[-1] if wanted else None)
        assert space.get_many([b"a", b"", b"b"]) == [model.get(key) for key in (b"a", b"", b"b")]
        assert space.approximate_count() == len(model)
        moments.append((database.snapshot(), dict(model)))
    for snapshot, then in moments:
        assert scanned(snapshot.namespace("default")) == between(then, None, None)
        assert snapshot.namespace("default").get(b"") == then.get(b"")
    database.checkpoint(root / "lmdb" / "copy")
    database.close()
    for store in ("s", "copy"):
        reader = LMDBEngine().open(root, store, read_only=True)
        assert scanned(reader.namespace("default")) == between(model, None, None)
        assert reader.namespace("other").get(b"") == b"untouched"
        reader.close()
    with pytest.raises(Exception, match="closed"):
        other.get(b"")


def test_it_goes_with_its_namespace(open_database: OpenDatabase) -> None:
    database = open_database()
    database.namespace("n")
    put(database, {b"": b"1"}, "n")
    database.drop_namespace("n")
    assert database.namespace("n").get(b"") is None
    assert scanned(database.namespace("n")) == []


def test_a_load_may_begin_with_it(open_database: OpenDatabase) -> None:
    database = open_database()
    assert database.load("n", [([b"", b"a"], [b"1", b"2"]), ([b"b"], [b"3"])]) == 3
    assert scanned(database.namespace("n")) == [(b"", b"1"), (b"a", b"2"), (b"b", b"3")]
    assert database.namespaces() != []
    assert ".empty" not in database.namespaces()


@pytest.mark.parametrize("form", LIMITS)
def test_keys_at_the_limit_and_beyond(open_database: OpenDatabase, form: str) -> None:
    limit = LIMITS[form]
    database = open_database(format_version=form)
    assert LMDBEngine({"format_version": form}).capabilities.max_key_bytes == limit
    space = database.namespace("default")
    longest, longer = b"k" * limit, b"k" * (limit + 1)
    put(database, {longest: b"1", b"a": b"2", b"z": b"3"})
    with pytest.raises(KeyTooLongError, match=f"{limit} bytes"):
        put(database, {b"b": b"4", longer: b"5"})
    with pytest.raises(KeyTooLongError):
        put(database, {b"b": b"4", longer: None})
    with pytest.raises(KeyTooLongError):
        database.load("default", [([b"b", longer], [b"4", b"5"])])
    rows = [(b"a", b"2"), (longest, b"1"), (b"z", b"3")]
    assert scanned(space) == rows
    assert space.get(longest) == b"1"
    assert space.get(longer) is None
    assert space.get_many([longest, longer]) == [b"1", None]
    for bound in (longest, longer, longest + b"\0", b"k" * 5000):
        below = [row for row in rows if row[0] < bound]
        above = [row for row in rows if row[0] >= bound]
        for reverse in (False, True):
            step = -1 if reverse else 1
            assert scanned(space, None, bound, reverse=reverse) == below[::step]
            assert scanned(space, bound, reverse=reverse) == above[::step]
    database.write({"default": Rows(deleted_ranges=[(longer, None)])})
    assert scanned(space) == rows[:2]


def test_an_environment_of_the_other_format(open_database: OpenDatabase, tmp_path: Path) -> None:
    database = open_database(format_version="1.0")
    put(database, {b"k" * 1000: b"1"})
    database.close()
    with pytest.raises(ValueError, match=r"format 1\.0.*format_version is 0\.9"):
        open_database()
    reader = open_database(read_only=True)
    assert scanned(reader.namespace("default")) == [(b"k" * 1000, b"1")]
