"""Rows that no versioned store has written: refused or a typed error, never a crash."""

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_core.engine import Rows
from kstore_core.errors import FormatError, InconsistentStateError
from kstore_memory import MemoryEngine
from tests.typed.homes import database_of

PLAIN = stores.versioned_key_value


@pytest.mark.parametrize("engine", ["memory"], indirect=True)
def test_rows_that_no_versioned_store_has_are_refused(home):
    """A key-value store that Kafka wrote carries no description that would tell."""
    for number, key in enumerate((b"k", b"", b"\xff", b"\x80key", b"a" * 7)):
        with database_of(home, f"s{number}") as database:
            database.write({"default": Rows([key], [b"v"])})
        with home.open() as state:
            with pytest.raises(InconsistentStateError):
                state.open(PLAIN(f"s{number}", 1000))
            assert state.open(stores.key_value(f"s{number}")).get(key) == b"v"


@settings(max_examples=200, deadline=None)
@given(
    rows=st.dictionaries(
        st.sampled_from([b"\xff" * 8, bytes(8), bytes(7) + b"\1", bytes(7) + b"\2"]),
        st.binary(max_size=40)
        | st.builds(
            struct.Struct(">qqqi4s").pack,
            *[st.integers(0, 40)] * 3,
            st.integers(-2, 5),
            st.binary(max_size=4),
        ),
        max_size=4,
    )
)
def test_damaged_rows_are_format_errors_and_nothing_else(rows):
    engine = MemoryEngine()
    database = engine.open(Path("x"), "s")
    keys = sorted(rows)
    database.write({"default": Rows([key + b"k" for key in keys], [rows[key] for key in keys])})
    database.close()
    with open_state("x", engine=engine) as state:
        store = state.open(PLAIN("s", 1000, 10))
        for use in (
            lambda: store.get(b"k"),
            lambda: store.get(b"k", as_of=5),
            lambda: store.get_many([b"k"], as_of=15),
            lambda: store.history(b"k"),
            lambda: list(store.all()),
            lambda: list(store.all(as_of=5)),
            lambda: store.put(b"k", b"v", timestamp=5),
            lambda: store.delete(b"k", timestamp=25),
            lambda: store.all(as_of=20).to_arrow(),
        ):
            with contextlib.suppress(FormatError):
                use()
