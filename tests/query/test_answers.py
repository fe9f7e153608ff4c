"""What each store answers: Kafka's table, on every engine, whoever is asked and however."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kstore_core import AggregationWithHeaders, ValueAndTimestamp, Windowed, serdes, stores
from kstore_core import query as queries
from kstore_core.errors import QueryError, StoreClosedError, UnsupportedError
from kstore_core.testing.kinds import EDGES, KINDS, Edge, Kind
from tests.query.filled import HEADERS, INTERVAL, KEYS, RETENTION, fill, record, spec_of
from tests.query.queries import QUERIES
from tests.support.engines import Home

ASKED = ("staged", "cached", "committed", "isolated", "view", "read-only")
"""Who is asked: the writer before its commit, plain and through a cache, and after it; the writer,
for what is committed; a view of that; another opening of the directory."""


@contextmanager
def asked_as(home: Home, kind: Kind, who: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """A filled store, and what to ask it with."""
    spec = spec_of(kind)
    if who == "cached":
        spec = spec.with_cache().with_metrics()
    with home.open(transactional=True) as state:
        store = state.open(spec)
        with state.record(topic="t", partition=0, offset=5):
            fill(kind, store)
        if who in ("staged", "cached"):
            yield store, {}
            return
        state.commit()
        if who == "committed":
            yield store, {}
            return
        if who != "read-only":
            with state.record(topic="t", partition=0, offset=6):
                fill(kind, store, b"not committed")
        if who == "isolated":
            yield store, {"isolation": "committed"}
            return
        if who == "view":
            with state.committed() as view:
                yield view.open(spec), {}
            return
    with home.open(read_only=True) as state:
        yield state.open(spec), {"isolation": "committed"}


def bare(kind: Kind, value: Any) -> Any:
    if kind.shape == "session" and kind.format.headers:
        return value.aggregation
    return value.value if kind.format.timestamped else value


def timed(kind: Kind, value: Any) -> Any:
    return ValueAndTimestamp(value.value, value.timestamp) if kind.format.headers else value


def table_of(kind: Kind, plain: Any) -> Iterator[tuple[queries.Query, Any]]:
    """Queries with their answers, made of what the store's own methods gave.

    Parameters
    ----------
    plain : dict
        Of a store that was filled alike and never queried.
    """
    shape, all_items = kind.shape, plain["all"]
    key = KEYS[7]
    if shape == "key_value":
        lo, hi = KEYS[3], KEYS[9]
        some = [(k, v) for k, v in all_items if lo <= k <= hi]
        value = dict(all_items)[key]
        yield queries.KeyQuery(key), bare(kind, value)
        yield queries.KeyQuery(b"none"), None
        yield queries.RangeQuery(lo, hi), [(k, bare(kind, v)) for k, v in some]
        yield queries.RangeQuery(lo, hi, "descending"), [(k, bare(kind, v)) for k, v in some[::-1]]
        yield queries.RangeQuery(hi, lo), []
        yield queries.RangeQuery(order="ascending"), [(k, bare(kind, v)) for k, v in all_items]
        if kind.format.timestamped:
            yield queries.TimestampedKeyQuery(key), timed(kind, value)
            yield queries.TimestampedKeyQuery(b"none"), None
            yield (
                queries.TimestampedRangeQuery(lo),
                [(k, timed(kind, v)) for k, v in all_items if k >= lo],
            )
        if kind.format.headers:
            yield queries.TimestampedKeyWithHeadersQuery(key), record(key, value)
            yield queries.TimestampedKeyWithHeadersQuery(b"none"), None
            yield (
                queries.TimestampedRangeWithHeadersQuery(hi=hi, order="descending"),
                [record(k, v) for k, v in reversed(all_items) if k <= hi],
            )
    elif shape == "window":
        as_asked = timed if kind.format.timestamped else bare
        of_key = [(w, v) for w, v in all_items if w.key == key and 200 <= w.start <= 309]
        of_all = [(w, v) for w, v in all_items if 200 <= w.start <= 309]
        assert 0 < len(of_key) < len(of_all)
        yield (
            queries.WindowKeyQuery(key, 200, 309),
            [(w.start, as_asked(kind, v)) for w, v in of_key],
        )
        yield queries.WindowKeyQuery(b"none", 0, 2**63 - 1), []
        yield (
            queries.WindowRangeQuery.with_window_start_range(200, 309),
            [(w, as_asked(kind, v)) for w, v in of_all],
        )
        if kind.format.headers:
            yield (
                queries.TimestampedWindowKeyWithHeadersQuery(key, 200, 309),
                [record(w, v) for w, v in of_key],
            )
            yield (
                queries.TimestampedWindowRangeWithHeadersQuery.with_window_start_range(200, 309),
                [record(w, v) for w, v in of_all],
            )
    elif shape == "session":
        of_key = [(w, v) for w, v in all_items if w.key == key]
        yield queries.WindowRangeQuery.with_key(key), [(w, bare(kind, v)) for w, v in of_key]
        yield queries.WindowRangeQuery.with_key(b"none"), []
        if kind.format.headers:
            yield (
                queries.TimestampedWindowRangeWithHeadersQuery.with_key(key),
                [queries.ReadOnlyRecord(w, v.aggregation, w.end, v.headers) for w, v in of_key],
            )
    else:
        versions = plain["versions"]
        assert [v.valid_to for v in versions] == [*(v.timestamp for v in versions[1:]), None]
        yield queries.VersionedKeyQuery(key), versions[-1]
        yield queries.VersionedKeyQuery(key, versions[1].timestamp), versions[1]
        yield queries.VersionedKeyQuery(key, versions[0].timestamp - 1), None
        yield queries.MultiVersionedKeyQuery(key), versions[::-1]
        yield queries.MultiVersionedKeyQuery(key, order="descending"), versions[::-1]
        lo, hi = versions[1].timestamp, versions[2].timestamp
        yield queries.MultiVersionedKeyQuery(key, lo, hi, "ascending"), versions[1:3]
        yield queries.MultiVersionedKeyQuery(key, to_ts=lo - 1), versions[:1]
        yield queries.MultiVersionedKeyQuery(b"none"), []


@pytest.mark.parametrize("who", ASKED)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_table(kind: Kind, who: str, home: Home, make_home: Any) -> None:
    with make_home().open() as state:
        store = state.open(spec_of(kind))
        fill(kind, store)
        plain = {"versions": store.history(KEYS[7])} if kind.shape == "versioned" else {}
        session = kind.shape == "session"
        plain["all"] = list(store.fetch_range(None, None) if session else store.all())
    with asked_as(home, kind, who) as (store, how):
        answered = set()
        for query, wanted in table_of(kind, plain):
            answered.add(type(query))
            result = store.query(query, bound=queries.PositionBound.at({"t": {0: 5}}), **how)
            assert result.position == {"t": {0: 5}}
            if isinstance(wanted, list):
                with result.get() as scan:
                    assert list(scan) == wanted, query
                    assert list(scan) == []
            else:
                assert result.get() == wanted, query
        for query in QUERIES:
            if kind.shape == "versioned" and type(query) in (queries.KeyQuery, queries.RangeQuery):
                with pytest.raises(UnsupportedError, match="VersionedKeyQuery"):
                    store.query(query, **how)
            elif type(query) not in answered:
                result = store.query(query, **how)
                assert result.failure_reason is queries.FailureReason.UNKNOWN_QUERY_TYPE, query
                assert type(query).__name__ in result.failure_message


# What is not a table's.


HEADED = stores.timestamped_key_value_with_headers("s", key=serdes.UTF8, value=serdes.JSON)


def test_headers_of_results_are_read_only(home: Home) -> None:
    with home.open() as state:
        store = state.open(HEADED)
        store.put("a", {"n": 1}, timestamp=5, headers=HEADERS)
        (found,) = store.query(queries.TimestampedRangeWithHeadersQuery()).get()
        for one in (store.query(queries.TimestampedKeyWithHeadersQuery("a")).get(), found):
            assert (one.key, one.value, one.timestamp) == ("a", {"n": 1}, 5)
            assert list(one.headers) == HEADERS
            with pytest.raises(TypeError, match="read-only"):
                one.headers.add("x", b"")


def test_a_record_without_a_time_is_none_with_headers(home: Home) -> None:
    """A row that was plain once has the time -1 (Kafka: an exception, wherever it comes up)."""
    with home.open() as state:
        state.open(stores.key_value("s", key=serdes.UTF8, value=serdes.JSON)).put("a", 1)
    for migrate in (False, True):
        with home.open(migrate_on_read=migrate) as state:
            store = state.open(HEADED)
            store.put("b", 2, timestamp=7)
            assert store.query(queries.KeyQuery("a")).get() == 1
            assert store.query(queries.TimestampedKeyQuery("a")).get() == ValueAndTimestamp(1, -1)
            result = store.query(queries.TimestampedKeyWithHeadersQuery("a"))
            assert result.failure_reason is queries.FailureReason.STORE_EXCEPTION
            assert "Traceback" in result.failure_message
            with pytest.raises(QueryError, match="the key 'a' is -1") as error:
                result.get()
            assert isinstance(error.value.__cause__, QueryError)
            for order, before in (("ascending", 0), ("descending", 1)):
                scan = store.query(queries.TimestampedRangeWithHeadersQuery(order=order)).get()
                assert len([next(scan) for _ in range(before)]) == before
                with pytest.raises(QueryError, match="the key 'a' is -1"):
                    next(scan)
            assert (
                store.query(queries.TimestampedRangeWithHeadersQuery("b")).get().to_arrow().num_rows
                == 1
            )
            with pytest.raises(QueryError, match="is -1"):
                store.query(queries.TimestampedRangeWithHeadersQuery()).get().to_arrow()


def test_ranges_as_columns(home: Home) -> None:
    with home.open() as state:
        store = state.open(HEADED)
        store.put("a", {"n": 1}, timestamp=5, headers=HEADERS)
        sessions = state.open(stores.session_with_headers("t", RETENTION, INTERVAL))
        sessions.put(Windowed(b"k", 1, 5), AggregationWithHeaders(b"v", HEADERS))
        for asked, columns in (
            (queries.RangeQuery(), ["key", "value"]),
            (queries.TimestampedRangeQuery(), ["key", "value", "timestamp"]),
            (queries.TimestampedRangeWithHeadersQuery(), ["key", "value", "timestamp", "headers"]),
        ):
            assert store.query(asked).get().to_arrow().column_names == columns
        for asked, columns in (
            (queries.WindowRangeQuery.with_key(b"k"), ["key", "start", "end", "value"]),
            (
                queries.TimestampedWindowRangeWithHeadersQuery.with_key(b"k"),
                ["key", "start", "end", "value", "headers"],
            ),
        ):
            assert sessions.query(asked).get().to_arrow().column_names == columns
        versions = state.open(stores.versioned_key_value("v", RETENTION, INTERVAL))
        versions.put(b"k", b"v", timestamp=1)
        versions.put(b"k", b"w", timestamp=7)
        table = versions.query(queries.MultiVersionedKeyQuery(b"k")).get().to_arrow()
        assert table["valid_to"].to_pylist() == [None, 7]
        assert table["key"].to_pylist() == [b"k", b"k"]


def test_an_open_range_of_times_is_no_query_of_windows(home: Home) -> None:
    with home.open() as state:
        windows = state.open(stores.timestamped_window_with_headers("w", RETENTION, 10, False, 100))
        sessions = state.open(stores.session_with_headers("t", RETENTION, INTERVAL))
        for store, asked, why in (
            (windows, queries.WindowKeyQuery(b"k", 5, None), "both ends of its range"),
            (windows, queries.WindowKeyQuery(b"k", None, 5), "both ends of its range"),
            (windows, queries.TimestampedWindowKeyWithHeadersQuery(b"k"), "both ends of its range"),
            (windows, queries.WindowRangeQuery(from_ts=1), "both ends of its range"),
            (windows, queries.WindowRangeQuery.with_key(b"k"), "with_window_start_range"),
            (
                windows,
                queries.TimestampedWindowRangeWithHeadersQuery.with_key(b"k"),
                "with_window_start",
            ),
            (sessions, queries.WindowRangeQuery.with_window_start_range(0, 5), "with_key"),
        ):
            result = store.query(asked)
            assert result.failure_reason is queries.FailureReason.UNKNOWN_QUERY_TYPE
            assert why in result.failure_message


class Other(queries.Query):
    """A query that nobody knows."""


def test_what_is_asked_wrongly_is_raised(home: Home) -> None:
    with home.open() as state:
        store = state.open(HEADED)
        assert store.query(Other()).failure_reason is queries.FailureReason.UNKNOWN_QUERY_TYPE
        with pytest.raises(
            TypeError, match=r"query must be an object of kstore_core\.query, not 'a'"
        ):
            store.query("a")
        with pytest.raises(TypeError, match="PositionBound, not"):
            store.query(queries.KeyQuery("a"), bound={"t": {0: 1}})
        with pytest.raises(ValueError, match="'read'"):
            store.query(queries.KeyQuery("a"), isolation="read")
        with pytest.raises(TypeError, match="str"):
            store.query(queries.KeyQuery(5))
        with pytest.raises(UnsupportedError, match="transactional=True"):
            store.query(queries.KeyQuery("a"), isolation="committed")
    with pytest.raises(StoreClosedError):
        store.query(queries.KeyQuery("a"))
    with pytest.raises(StoreClosedError):
        store.query(Other())


class Failing(serdes.Serde[str]):
    """Cannot read what it has written."""

    name = "failing"
    arrow_type = None

    def serialize(self, value: Any, headers: Any) -> bytes:
        return b"x"

    def deserialize(self, data: Any, headers: Any) -> str:
        raise RuntimeError("no such letter")


def test_what_a_store_fails_with_is_the_answer(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.key_value("s", value=Failing()))
        store.put(b"k", "v")
        result = store.query(queries.KeyQuery(b"k"))
        assert result.failure_reason is queries.FailureReason.STORE_EXCEPTION
        assert "RuntimeError: no such letter" in result.failure_message
        assert isinstance(result.cause, RuntimeError)
        with pytest.raises(QueryError, match="no such letter") as error:
            result.get()
        assert error.value.__cause__ is result.cause


def test_only_the_writer_is_active(home: Home) -> None:
    with home.open(transactional=True) as state:
        store = state.open(HEADED)
        store.put("a", 1, timestamp=1)
        state.commit()
        assert store.query(queries.KeyQuery("a"), require_active=True).get() == 1
        with state.committed() as view:
            result = view.open(HEADED).query(queries.KeyQuery("a"), require_active=True)
            assert result.failure_reason is queries.FailureReason.NOT_ACTIVE
            assert view.open(HEADED).query(queries.KeyQuery("a")).get() == 1


def test_who_answered_is_told_where_it_is_asked(home: Home) -> None:
    with home.open(transactional=True) as state:
        store = state.open(HEADED.with_cache())
        assert store.query(queries.KeyQuery("a")).execution_info == ()
        for asked, how, words in (
            (queries.KeyQuery("a"), {}, "uncommitted, in"),
            (queries.KeyQuery("a", skip_cache=True), {}, "below its cache, uncommitted, in"),
            (queries.KeyQuery("a"), {"isolation": "committed"}, "committed, in"),
            (Other(), {}, "uncommitted, in"),
        ):
            (told,) = store.query(asked, collect_execution_info=True, **how).execution_info
            assert told.startswith("Handled in <KeyValueStore 's' (timestamped_headers)>")
            assert words in told
            assert told.endswith("ns")


def test_a_store_of_which_nothing_is_committed_is_empty(home: Home) -> None:
    with home.open(transactional=True) as state:
        windows = state.open(stores.window("w", RETENTION, 10, False, INTERVAL))
        store = state.open(HEADED)
        store.put("a", 1, timestamp=1)
        windows.put(b"k", b"v", window_start=5)
        asked = queries.WindowKeyQuery(b"k", 0, 9)
        assert store.query(queries.KeyQuery("a"), isolation="committed").get() is None
        assert list(windows.query(asked, isolation="committed").get()) == []
        state.commit()
        assert list(windows.query(asked, isolation="committed").get()) == [(5, b"v")]


def test_queries_are_counted(home: Home) -> None:
    with home.open() as state:
        store = state.open(HEADED.with_metrics())
        windows = state.open(stores.window("w", RETENTION, 10, False, INTERVAL).with_metrics())
        store.put("a", 1, timestamp=1)
        figures = {}

        def read() -> dict[tuple[str, str], float]:
            for metric in state.measure():
                names = [v for k, v in metric.tags.items() if k.endswith("-state-id")]
                if names:
                    figures[names[0], metric.name] = metric.value
            return figures

        store.query(queries.KeyQuery("a"))
        store.query(Other())
        scan = store.query(queries.RangeQuery()).get()
        found = windows.query(queries.WindowKeyQuery(b"k", 0, 5)).get()
        assert read()["s", "get-total"] == 2
        assert read()["s", "num-open-iterators"] == 1
        assert read()["w", "fetch-total"] == 1
        list(scan)
        found.close()
        assert read()["s", "num-open-iterators"] == read()["w", "num-open-iterators"] == 0


@pytest.mark.parametrize("migrate_on_read", [True, False], ids=["moving", "staying"])
@pytest.mark.parametrize(
    "edge", [edge for edge in EDGES if edge.newer.shape != "versioned"], ids=str
)
def test_rows_of_older_formats_answer(edge: Edge, migrate_on_read: bool, home: Home) -> None:
    """What an older store held is answered as the newer one would: plain rows have no time."""
    older, newer = edge
    with home.open() as state:
        store = state.open(spec_of(older))
        fill(older, store)
        session = older.shape == "session"
        items = list(store.fetch_range(None, None) if session else store.all())
    wanted = [(key, bare(older, value)) for key, value in items]
    for read_only in (True, False):
        with home.open(read_only=read_only, migrate_on_read=migrate_on_read) as state:
            store = state.open(spec_of(newer))
            if newer.shape == "key_value":
                assert list(store.query(queries.RangeQuery()).get()) == wanted
                assert store.query(queries.KeyQuery(KEYS[3])).get() == dict(wanted)[KEYS[3]]
                records = store.query(queries.TimestampedRangeWithHeadersQuery())
            elif newer.shape == "window":
                times = 0, 2**63 - 1
                found = store.query(queries.WindowRangeQuery.with_window_start_range(*times)).get()
                assert [(key, bare_of(value)) for key, value in found] == wanted
                records = store.query(
                    queries.TimestampedWindowRangeWithHeadersQuery.with_window_start_range(*times)
                )
            else:
                wanted = [(key, value) for key, value in wanted if key.key == KEYS[3]]
                assert list(store.query(queries.WindowRangeQuery.with_key(KEYS[3])).get()) == wanted
                records = store.query(
                    queries.TimestampedWindowRangeWithHeadersQuery.with_key(KEYS[3])
                )
            if not newer.format.headers:
                assert records.failure_reason is queries.FailureReason.UNKNOWN_QUERY_TYPE
            elif newer.format.timestamped and not older.format.timestamped:
                with pytest.raises(QueryError, match="is -1"):
                    list(records.get())
            else:
                assert [(one.key, one.value, list(one.headers)) for one in records.get()] == [
                    (key, value, []) for key, value in wanted
                ]


def bare_of(value: Any) -> Any:
    return getattr(value, "value", value)


FORKED = """
import os, sys
from kstore_core import open_state, stores
from kstore_core.errors import ForkedHandleError
from kstore_core.query import KeyQuery, VersionedKeyQuery
with open_state(sys.argv[1], engine=sys.argv[2], transactional=True) as state:
    asked = {
        KeyQuery(b"k"): state.open(stores.key_value("s").with_cache()),
        VersionedKeyQuery(b"k"): state.open(stores.versioned_key_value("v", 1000, 100)),
    }
    state.commit()
    child = os.fork()
    if not child:
        refused = 0
        for query, store in asked.items():
            for isolation in ("uncommitted", "committed"):
                try:
                    store.query(query, isolation=isolation)
                except ForkedHandleError:
                    refused += 1
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
"""


def test_a_fork_of_the_writer_is_told_that_it_is_one(home: Home) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORKED, str(home.path), home.engine],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout.strip(), ran.stderr) == ("4", "")
