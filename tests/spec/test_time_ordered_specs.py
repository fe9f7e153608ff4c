"""What a time-ordered store is: its description, what it opens as, and its upgrades."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kstore_core import Windowed, formats, stores
from kstore_core.codec.conversions.upgrades import (
    ordered_plain_to_session_headers,
    ordered_timestamped_to_headers,
)
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Database, Rows
from kstore_core.errors import FormatDowngradeError, FormatError, InconsistentStateError, SpecError
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
from kstore_core.spec import StoredSpec, StoreSpec
from tests.support.engines import Home

pytestmark = pytest.mark.usefixtures("left_sound")

WINDOW, SESSION = (10_000, 10, False, 100), (10_000, 100)
ORDERED: list[tuple[Callable[..., StoreSpec], tuple[Any, ...], formats.ValueFormat]] = [
    (stores.window, WINDOW, formats.PLAIN),
    (stores.timestamped_window, WINDOW, formats.ORDERED_TIMESTAMPED),
    (stores.timestamped_window_with_headers, WINDOW, formats.ORDERED_TIMESTAMPED_HEADERS),
    (stores.session, SESSION, formats.PLAIN),
    (stores.session_with_headers, SESSION, formats.ORDERED_SESSION_HEADERS),
]
each_factory = pytest.mark.parametrize(
    ("make", "times", "value_format"), ORDERED, ids=[make.__name__ for make, _, _ in ORDERED]
)


@each_factory
def test_a_factory_makes_both_orders(make: Any, times: Any, value_format: Any) -> None:
    spec = make("s", *times, time_ordered=True)
    assert (spec.time_ordered, spec.indexed, spec.format) == (True, True, value_format)
    assert spec.family == f"time_ordered_{spec.shape}"
    assert make("s", *times, time_ordered=True, indexed=True) == spec
    assert make("s", *times, time_ordered=True, indexed=False).indexed is False
    plain = make("s", *times)
    assert (plain.time_ordered, plain.indexed, plain.family) == (False, False, plain.shape)
    assert pickle.loads(pickle.dumps(spec)) == spec


@each_factory
@pytest.mark.parametrize("indexed", [True, False])
def test_an_index_is_a_time_ordered_stores(
    make: Any, times: Any, value_format: Any, indexed: bool
) -> None:
    with pytest.raises(SpecError, match=f"indexed is {indexed}.*time_ordered=True"):
        make("s", *times, indexed=indexed)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"time_ordered": 1}, "time_ordered must be True or False, not 1"),
        ({"time_ordered": True, "indexed": 0}, "indexed must be True or False, not 0"),
    ],
)
def test_both_are_bools(more: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        stores.window("s", *WINDOW, **more)


def test_shapes_without_segments_of_time_have_one_order() -> None:
    with pytest.raises(SpecError, match="time_ordered is True for the key_value store"):
        StoreSpec("s", "key_value", formats.PLAIN, time_ordered=True)
    with pytest.raises(SpecError, match="indexed is True for the store 's', which is not"):
        StoreSpec("s", "session", formats.PLAIN, retention_ms=1, segment_interval_ms=1,
                  indexed=True)  # fmt: skip
    with pytest.raises(
        SpecError, match=r"'time_ordered_window', and .* cannot have the format 'timestamped'"
    ):
        StoreSpec("s", "window", formats.TIMESTAMPED, retention_ms=1, segment_interval_ms=1,
                  window_size_ms=1, time_ordered=True)  # fmt: skip


@each_factory
def test_the_description_says_so_in_a_version_of_its_own(
    make: Any, times: Any, value_format: Any
) -> None:
    for more in ({}, {"time_ordered": True}, {"time_ordered": True, "indexed": False}):
        spec = make("s", *times, **more)
        described = spec.describe()
        assert described["version"] == (2 if more else 1), "what knows one order only refuses it"
        assert {"time_ordered", "indexed"} & described.keys() == {
            name for name in ("time_ordered", "indexed") if getattr(spec, name)
        }
        stored = StoredSpec.parse(json.dumps(described).encode())
        assert stored.describes(spec)
        assert stored.spec() == spec


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({}, {"time_ordered": True}, "time_ordered=False, but was opened with time_ordered=True"),
        ({"time_ordered": True}, {}, "Pass time_ordered=True"),
        (
            {"time_ordered": True},
            {"time_ordered": True, "indexed": False},
            "indexed=True, but was opened with indexed=False",
        ),
    ],
)
def test_a_store_keeps_its_order_and_its_index(
    home: Home, before: Any, after: Any, text: str
) -> None:
    with home.open() as state:
        state.open(stores.session("s", *SESSION, **before))
    with home.open() as state, pytest.raises(SpecError, match=text):
        state.open(stores.session("s", *SESSION, **after))


def test_no_upgrade_leads_from_plain_windows_to_others(home: Home) -> None:
    plain = stores.window("s", *WINDOW, time_ordered=True)
    with home.open() as state:
        state.open(plain).put(b"k", b"v", window_start=5)
    for make in (stores.timestamped_window, stores.timestamped_window_with_headers):
        with home.open() as state, pytest.raises(SpecError, match="there is no upgrade between"):
            state.open(make("s", *WINDOW, time_ordered=True))
    with home.open() as state:
        assert state.open(plain).fetch_one(b"k", 5) == b"v"


def test_an_index_row_stays_as_it_is_wherever_its_key_begins() -> None:
    for at in (0, 8):
        windows, sessions = (
            convert.behind(at)
            for convert in (ordered_timestamped_to_headers, ordered_plain_to_session_headers)
        )
        row, index = b"\1" * at + b"\0" * 20, b"\0" * at + b"\1" * 20
        assert windows(row, b"12345678") == b"\x0012345678"
        assert (windows(index, b""), sessions(index, b"")) == (b"", b"")
        assert sessions(row, b"") == b"\0", "an empty aggregate is none"
        with pytest.raises(FormatError, match="cut short"):
            windows(row, b"1234567")


# kstore upgrade.


@contextmanager
def the_database(home: Home, store: str) -> Iterator[Database]:
    """The database of the store's only segment, or of the store."""
    engine = home._kept or make_engine(home.engine)
    if engine.capabilities.children:
        [child] = engine.children(home.path, store)
        opened = engine.open_child(home.path, store, child)
    else:
        opened = engine.open(home.path, store)
    with closing(opened) as database:
        yield database


def rows(database: Database, namespace: str) -> list[tuple[str, bytes]]:
    """Rows with the last 18 bytes of their keys, as they are without a segment before them."""
    if namespace not in database.namespaces():
        return []
    chunks = database.namespace(namespace).scan()
    return [
        (key.hex()[-36:], value)
        for keys, values in chunks
        for key, value in zip(keys, values, strict=True)
    ]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("spec_is_stored", [True, False])
def test_sessions_are_upgraded_with_their_index(
    home: Home, indexed: bool, spec_is_stored: bool
) -> None:
    if not spec_is_stored and home.engine != "rocksdb":
        pytest.skip("Kafka Streams writes there only")
    order: dict[str, Any] = {"time_ordered": True, "indexed": indexed}
    held = [(Windowed(b"k", 1, 5), b""), (Windowed(b"k", 2, 7), b"v")]
    with home.open() as state:
        store = state.open(stores.session("s", *SESSION, **order))
        for session, aggregate in held:
            store.put(session, aggregate)
    if not spec_is_stored:
        forget_spec(home, "s")
    done = upgrade(
        home.path, "s", "headers", engine=home._kept or home.engine,
        shape="session", time_ordered=None if spec_is_stored else True,
    )  # fmt: skip
    assert (done.before, done.format) == (formats.PLAIN, formats.ORDERED_SESSION_HEADERS)
    assert done.moved == {"plain": 4 if indexed else 2}
    with the_database(home, "s") as database:
        assert rows(database, "default") == []
        times = ["00000000000000050000000000000001", "00000000000000070000000000000002"]
        wanted = [
            (f"00{time}6b", b"\0" + value) for time, (_, value) in zip(times, held, strict=True)
        ]
        wanted += [(f"016b{time}", b"") for time in times] if indexed else []
        assert rows(database, "sessionKeyValueWithHeaders") == wanted
    with home.open() as state:
        store = state.open(stores.session_with_headers("s", *SESSION, **order))
        assert [(w, r.aggregation) for w, r in store.fetch(b"k")] == held


def forget_spec(home: Home, store: str) -> None:
    """As if Kafka Streams had written the store."""
    with the_database(home, store) as database:
        database.write({"offsets": Rows([b"kstore.spec"], [None])})


@pytest.mark.parametrize("spec_is_stored", [True, False])
def test_windows_are_upgraded_with_their_index(home: Home, spec_is_stored: bool) -> None:
    with home.open() as state:
        store = state.open(stores.timestamped_window("s", *WINDOW, time_ordered=True))
        for start in (5, 6, 7):
            store.put(b"k", b"v", window_start=start, timestamp=start)
    if not spec_is_stored:
        forget_spec(home, "s")
    newer = stores.timestamped_window_with_headers("s", *WINDOW, time_ordered=True)
    with home.open() as state:  # the upgrade is begun
        state.open(newer).put(b"k", b"w", window_start=6, timestamp=6, headers=[("h", b"1")])
    engine = home._kept or home.engine
    done = upgrade(home.path, "s", engine=engine, shape=None if spec_is_stored else "window")
    assert done.format == formats.ORDERED_TIMESTAMPED_HEADERS
    assert done.moved == {"ordered_timestamped": 4}
    with the_database(home, "s") as database:
        assert [key[:2] for key, _ in rows(database, "default")] == []
    with home.open() as state:
        found = [(s, r.value, list(r.headers)) for s, r in state.open(newer).fetch(b"k")]
        assert found == [(5, b"v", []), (6, b"w", [("h", b"1")]), (7, b"v", [])]
    with home.open() as state, pytest.raises(FormatDowngradeError, match="ordered_timestamped"):
        state.open(stores.timestamped_window("s", *WINDOW, time_ordered=True))


def test_a_directory_that_tells_its_order_is_not_contradicted(home: Home) -> None:
    with home.open() as state:
        state.open(stores.session("s", *SESSION, time_ordered=True)).put(Windowed(b"k", 1, 5), b"")
    engine = home._kept or home.engine
    with pytest.raises(SpecError, match="the shape time_ordered_session, but session was"):
        upgrade(home.path, "s", engine=engine, time_ordered=False)
    with pytest.raises(SpecError, match="has the shape time_ordered_session, but"):
        upgrade(home.path, "s", engine=engine, shape="window")
    with pytest.raises(TypeError, match="time_ordered must be a bool"):
        upgrade(home.path, "s", engine=engine, time_ordered="yes")  # type: ignore[arg-type]


def test_a_window_store_with_headers_tells_its_order_by_its_namespace(tmp_path: Path) -> None:
    home = Home(tmp_path, "rocksdb")
    make = stores.timestamped_window_with_headers
    with home.open() as state:
        state.open(make("s", *WINDOW, time_ordered=True)).put(
            b"k", b"v", window_start=5, timestamp=5
        )
    forget_spec(home, "s")
    with (
        home.open() as state,
        pytest.raises(InconsistentStateError, match=r"'windowKeyValueWithHeaders'.* window store"),
    ):
        list(state.open(make("s", *WINDOW)).all())
    assert upgrade(tmp_path, "s", engine="rocksdb").format is formats.ORDERED_TIMESTAMPED_HEADERS
