"""The stored spec: what a directory says of a store, and what may change at the next open."""

import json

import pytest

from kstore_core import NOT_PUT, formats, serdes, stores
from kstore_core.engine import Rows
from kstore_core.errors import FormatDowngradeError, SpecError, StateError
from kstore_core.spec import SPEC_VERSION, StoredSpec
from tests.typed.homes import database_of

PLAIN = stores.key_value("s", key=serdes.UTF8)
TIMESTAMPED = stores.timestamped_key_value("s")
HEADERS = stores.timestamped_key_value_with_headers("s")
VERSIONED = stores.versioned_key_value("s", 60_000, 10_000)
VERSIONED_HEADERS = stores.versioned_key_value_with_headers("s", 60_000, 10_000)
WINDOW = stores.window("s", 60_000, 500, False, 10_000)
WINDOW_HEADERS = stores.timestamped_window_with_headers("s", 60_000, 500, False, 10_000)
SESSION = stores.session("s", 60_000, 10_000)
SESSION_HEADERS = stores.session_with_headers("s", 60_000, 10_000)


def stored(spec):
    return StoredSpec.parse(json.dumps(spec.describe()).encode())


@pytest.mark.parametrize(
    "spec",
    [
        PLAIN,
        TIMESTAMPED,
        HEADERS,
        VERSIONED,
        VERSIONED_HEADERS,
        WINDOW,
        WINDOW_HEADERS,
        stores.window("s", 60_000, 0, True),
        SESSION,
        SESSION_HEADERS,
        stores.window("s", 60_000, 500, time_ordered=True),
        stores.session_with_headers("s", 60_000, time_ordered=True, indexed=False),
    ],
    ids=str,
)
def test_a_spec_reads_back_from_its_description(spec):
    description = stored(spec)
    assert description.describes(spec)
    assert description.spec() == spec
    description.check(spec, "here")
    assert StoredSpec.of(spec) == description


def test_a_description_with_a_custom_serde_tells_its_name_only():
    class Custom:
        name = "mine"

        def serialize(self, value, headers):
            return value

        def deserialize(self, data, headers):
            return data

    description = stored(stores.key_value("s", value=Custom()))
    assert description.value == "mine"
    with pytest.raises(SpecError, match="no built-in serde 'mine'"):
        description.spec()


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"5", b'"x"', b"\xff", b"{}", b'{"version":1}', b"[" * 10_000],
    ids=lambda data: repr(data[:20]),
)
def test_a_damaged_description_is_refused(data):
    with pytest.raises(SpecError, match=r"kstore\.spec is damaged"):
        StoredSpec.parse(data)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1"},
        {"version": None},
        {"format": "no-such-format"},
        {"shape": 5},
        {"name": None},
        {"key": 5},
        {"history_retention_ms": "long"},
        {"segment_interval_ms": 1.5},
    ],
    ids=str,
)
def test_a_description_of_wrong_types_is_refused(change):
    data = json.dumps({**VERSIONED.describe(), **change}).encode()
    with pytest.raises(SpecError):
        StoredSpec.parse(data)


def test_what_a_newer_kstore_adds_is_read_past():
    data = json.dumps({**VERSIONED.describe(), "colour": "red"}).encode()
    assert StoredSpec.parse(data).describes(VERSIONED)


def test_a_newer_version_is_refused():
    data = json.dumps({**PLAIN.describe(), "version": SPEC_VERSION + 1}).encode()
    with pytest.raises(FormatDowngradeError, match=f"version {SPEC_VERSION + 1}.*newer"):
        StoredSpec.parse(data)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PLAIN, TIMESTAMPED),
        (PLAIN, HEADERS),
        (TIMESTAMPED, HEADERS),
        (VERSIONED, VERSIONED_HEADERS),
        (VERSIONED, stores.versioned_key_value("s", 1, 10_000)),
        (PLAIN, stores.key_value("s", key=serdes.JSON, value=serdes.INT64)),
    ],
)
def test_formats_move_up_and_retention_and_serdes_move_freely(before, after):
    stored(before).check(after, "here")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TIMESTAMPED, PLAIN),
        (HEADERS, PLAIN),
        (HEADERS, TIMESTAMPED),
        (VERSIONED_HEADERS, VERSIONED),
    ],
)
def test_a_downgrade_is_refused(before, after):
    with pytest.raises(FormatDowngradeError, match=f"has the format '{before.format.name}'"):
        stored(before).check(after, "here")


def test_another_shape_is_refused():
    with pytest.raises(SpecError, match="is a versioned store, but was opened as a key_value"):
        stored(VERSIONED).check(PLAIN, "here")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (WINDOW, SESSION, "is a window store, but was opened as a session"),
        (SESSION, PLAIN, "is a session store, but was opened as a key_value"),
        (WINDOW, stores.window("s", 60_000, 501, False, 10_000), "Pass window_size_ms=500"),
        (WINDOW, stores.window("s", 60_000, 500, True, 10_000), "Pass retain_duplicates=False"),
        (WINDOW, stores.window("s", 60_000, 500, False, 1), "Pass segment_interval_ms=10000"),
        (SESSION, stores.session("s", 60_000, 1), "Pass segment_interval_ms=10000"),
    ],
)
def test_what_the_rows_of_windows_and_sessions_depend_on_stays(before, after, text):
    with pytest.raises(SpecError, match=text):
        stored(before).check(after, "here")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WINDOW, WINDOW_HEADERS),
        (WINDOW, stores.timestamped_window("s", 99_000, 500, False, 10_000, key=serdes.UTF8)),
        (SESSION, SESSION_HEADERS),
        (SESSION, stores.session("s", 5, 10_000, value=serdes.JSON)),
    ],
)
def test_windows_and_sessions_move_up_and_change_their_retention(before, after):
    stored(before).check(after, "here")


@pytest.mark.parametrize(
    ("before", "after"), [(WINDOW_HEADERS, WINDOW), (SESSION_HEADERS, SESSION)]
)
def test_windows_and_sessions_do_not_move_down(before, after):
    with pytest.raises(FormatDowngradeError, match=r"open\(\) cannot downgrade a store"):
        stored(before).check(after, "here")


def test_another_interval_is_refused_with_the_one_to_pass():
    other = stores.versioned_key_value("s", 60_000, 5_000)
    with pytest.raises(SpecError, match="segment_interval_ms=10000"):
        stored(VERSIONED).check(other, "here")


# The same, through a state directory.


def test_a_commit_stores_the_spec_and_a_reopen_finds_it(home):
    with home.open() as state:
        state.open(VERSIONED)
        assert state.stored_spec("s") is None
        state.commit()
        said = state.stored_spec("s")
        assert said.describes(VERSIONED)
    with home.open() as state:
        assert state.stored_spec("s") == said
        assert state.open(VERSIONED).spec == VERSIONED
    with home.open(read_only=True) as state:
        assert state.stored_spec("s").spec() == VERSIONED


def test_the_spec_of_a_store_in_segments_is_told_when_rows_of_it_are_written(home):
    with home.open(uncommitted_max_bytes=100) as state:
        store = state.open(WINDOW)
        store.put(b"k", b"v", window_start=5)
        assert state.stored_spec("s") is None
        store.put(b"k", bytes(100), window_start=20_000)  # it does not fit any more: a spill
        assert state.stored_spec("s").describes(WINDOW)


def test_a_changed_retention_and_serde_are_stored_anew(home):
    after = stores.versioned_key_value("s", 7, 10_000, value=serdes.UTF8)
    with home.open() as state:
        state.open(VERSIONED)
    with home.open() as state:
        state.open(after)
    with home.open() as state:
        assert state.stored_spec("s").describes(after)


def test_a_changed_retention_holds_from_the_next_open_on(home):
    with home.open() as state:
        store = state.open(stores.versioned_key_value("s", 100, 10))
        for timestamp in (0, 50, 100, 150):
            store.put(b"k", b"v", timestamp=timestamp)
    with home.open() as state:
        store = state.open(stores.versioned_key_value("s", 10**6, 10))
        assert store.put(b"k", b"late", timestamp=20) != NOT_PUT
    with home.open() as state:
        store = state.open(stores.versioned_key_value("s", 0, 10))
        assert store.put(b"k", b"late", timestamp=149) == NOT_PUT
        store.put(b"k", b"v", timestamp=200)
        assert [version.timestamp for version in store.history(b"k")] == [150, 200]


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        (PLAIN, VERSIONED, SpecError),
        (VERSIONED, PLAIN, SpecError),
        (VERSIONED, stores.versioned_key_value("s", 60_000, 5_000), SpecError),
        (HEADERS, TIMESTAMPED, FormatDowngradeError),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_an_open_that_does_not_fit_changes_nothing(home, before, after, error, read_only):
    with home.open() as state:
        state.open(before)
        state.commit({("t", 0): 5})
    with home.open(read_only=read_only) as state:
        with pytest.raises(error):
            state.open(after)
        assert state.stored_spec("s").describes(before)
        assert state.open(before).offsets() == {("t", 0): 5}


def test_the_open_store_is_opened_once(home):
    with home.open() as state:
        store = state.open(PLAIN)
        assert state.open(stores.key_value("s", key=serdes.UTF8)) is store
        with pytest.raises(SpecError, match="already open with another spec"):
            state.open(TIMESTAMPED)


def test_an_empty_older_store_moves_up(home):
    with home.open() as state:
        state.open(PLAIN)
    with home.open() as state:
        state.open(HEADERS).put(b"k", b"v", timestamp=1)
    with home.open() as state:
        assert state.stored_spec("s").format is formats.TIMESTAMPED_HEADERS
        assert state.open(HEADERS).get(b"k").value == b"v"


def test_the_stored_spec_moves_up_with_the_first_commit(home):
    with home.open() as state:
        state.open(PLAIN).put("k", b"v")
    with home.open() as state:
        store = state.open(HEADERS)
        assert state.stored_spec("s").format is formats.PLAIN
        assert store.get(b"k").timestamp == -1
        state.commit()
        assert state.stored_spec("s").describes(HEADERS)
    with home.open() as state:
        assert state.stored_spec("s").describes(HEADERS)
        with pytest.raises(FormatDowngradeError):
            state.open(PLAIN)


def test_a_description_from_the_future_is_refused_at_open(home):
    with home.open() as state:
        state.open(PLAIN)
    future = json.dumps({**PLAIN.describe(), "version": 99}).encode()
    with database_of(home, "s") as database:
        database.write({"offsets": Rows([b"kstore.spec"], [future])})
    with home.open() as state:
        with pytest.raises(FormatDowngradeError, match="version 99"):
            state.open(PLAIN)
        with pytest.raises(FormatDowngradeError, match="version 99"):
            state.stored_spec("s")


def test_there_is_no_spec_of_a_store_that_is_not_there(home):
    with home.open() as state, pytest.raises(StateError, match="has no store 'other'"):
        state.stored_spec("other")
