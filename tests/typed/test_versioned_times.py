"""Times of versions: before the history that is kept, out of bounds, and of other types."""

import datetime as dt

import pytest

from kstore_core import LATEST, NOT_PUT
from kstore_core.errors import RetentionExceededError

MAX_TIME = 2**63 - 1


# Before the history that is kept.


@pytest.fixture
def expired(fx):
    """Stream time is 5000, so history begins at 4000; USD's only version is older."""
    fx.put("USD", b"old", timestamp=100)
    fx.put("EUR", b"older", timestamp=200)
    fx.put("EUR", b"newer", timestamp=5000)
    return fx


def test_an_expired_read_is_answered_from_the_latest_or_with_none(expired):
    assert expired.get("EUR", as_of=3999) is None
    assert expired.get("USD", as_of=3999).value == b"old"
    assert expired.get_many(["EUR", "USD"], as_of=3999)[0] is None
    assert [key for key, _ in expired.all(as_of=3999)] == ["USD"]
    assert [version.value for version in expired.history("USD", to_ts=3999)] == [b"old"]


def test_an_expired_read_may_raise(expired):
    for read in (
        lambda **a: expired.get("EUR", as_of=3999, **a),
        lambda **a: expired.get_many(["EUR"], as_of=3999, **a),
        lambda **a: expired.history("EUR", to_ts=3999, **a),
        lambda **a: expired.range("A", "Z", as_of=3999, **a),
        lambda **a: expired.all(as_of=3999, **a),
    ):
        with pytest.raises(RetentionExceededError, match="3999 lies before 4000"):
            read(on_expired="raise")
        with pytest.raises(ValueError, match="on_expired"):
            read(on_expired="shout")
    assert expired.get("EUR", as_of=4000, on_expired="raise").value == b"older"
    assert expired.get("EUR", on_expired="raise").value == b"newer"


def test_on_expired_is_checked_where_nothing_expires(fx):
    with pytest.raises(ValueError, match="on_expired"):
        fx.get("EUR", as_of=5, on_expired="shout")


# Times.


@pytest.mark.parametrize(
    "time", [-1, -(2**63), 2**63, 2**70, dt.datetime(1969, 1, 1, tzinfo=dt.UTC)]
)
def test_a_time_out_of_bounds_is_refused(fx, state, time):
    with pytest.raises(ValueError, match="64 bits"):
        fx.put("EUR", b"v", timestamp=time)
    with pytest.raises(ValueError, match="64 bits"):
        fx.delete("EUR", timestamp=time)
    assert fx.stream_time == -1
    assert state.staged_bytes == 0


def test_what_is_no_time_is_refused(fx):
    for time in ("5", 1.5, True, b"5"):
        for use, arguments in (
            (fx.get, ("EUR", time)),
            (fx.get_many, (["EUR"], time)),
            (fx.all, (time,)),
            (fx.range, ("A", "Z", time)),
            (fx.history, ("EUR", time)),
            (fx.history, ("EUR", None, time)),
        ):
            with pytest.raises(TypeError):
                use(*arguments)
    for time in (None, "5", 1.5, True, b"5"):
        with pytest.raises(TypeError):
            fx.put("EUR", b"v", timestamp=time)
        with pytest.raises(TypeError):
            fx.delete("EUR", timestamp=time)


def test_a_naive_datetime_is_refused(fx):
    naive = dt.datetime(2020, 1, 1)  # noqa: DTZ001
    for use in (
        lambda: fx.put("EUR", b"v", timestamp=naive),
        lambda: fx.get("EUR", as_of=naive),
        lambda: fx.history("EUR", naive),
        lambda: fx.all(as_of=naive),
    ):
        with pytest.raises(ValueError, match="naive"):
            use()


def test_an_aware_datetime_is_a_time(fx):
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    fx.put("EUR", b"v", timestamp=moment)
    assert fx.get("EUR", as_of=moment).timestamp == int(moment.timestamp() * 1000)
    assert fx.get("EUR", as_of=moment - dt.timedelta(milliseconds=1)) is None


def test_the_last_moment_there_is(home, factory):
    spec = factory("v", 10, 1)
    with home.open() as state:
        store = state.open(spec)
        assert store.put(b"k", b"a", timestamp=MAX_TIME - 1) == LATEST
        assert store.put(b"k", b"b", timestamp=MAX_TIME) == LATEST
        assert store.put(b"k", b"late", timestamp=0) == NOT_PUT
    with home.open() as state:
        store = state.open(spec)
        assert store.stream_time == MAX_TIME
        assert store.get(b"k", as_of=MAX_TIME - 1).valid_to == MAX_TIME
        assert [version.value for version in store.history(b"k")] == [b"a", b"b"]
        assert [found.value for _, found in store.all(as_of=MAX_TIME - 1)] == [b"a"]


def test_the_longest_retention_there_is(state, factory):
    store = state.open(factory("v", MAX_TIME))
    store.put(b"k", b"b", timestamp=MAX_TIME)
    store.put(b"k", b"a", timestamp=0)
    assert [version.timestamp for version in store.history(b"k")] == [0, MAX_TIME]
