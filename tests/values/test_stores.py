"""The factories: frozen, picklable descriptions that are checked when they are made."""

import dataclasses
import pickle

import pytest

from kstore_core import formats, serdes, stores
from kstore_core.errors import SpecError
from kstore_core.stores import StoreSpec, default_segment_interval

KEY_VALUE = {
    stores.key_value: formats.PLAIN,
    stores.timestamped_key_value: formats.TIMESTAMPED,
    stores.timestamped_key_value_with_headers: formats.TIMESTAMPED_HEADERS,
}
VERSIONED = {
    stores.versioned_key_value: formats.VERSIONED,
    stores.versioned_key_value_with_headers: formats.VERSIONED_HEADERS,
}
WINDOW = {
    stores.window: formats.PLAIN,
    stores.timestamped_window: formats.TIMESTAMPED,
    stores.timestamped_window_with_headers: formats.TIMESTAMPED_HEADERS,
}
SESSION = {
    stores.session: formats.PLAIN,
    stores.session_with_headers: formats.SESSION_HEADERS,
}


@pytest.mark.parametrize("factory", KEY_VALUE)
def test_a_key_value_description(factory):
    spec = factory("s", key=serdes.UTF8, value=serdes.JSON)
    assert spec.shape == "key_value"
    assert spec.format is KEY_VALUE[factory]
    assert (spec.key, spec.value) == (serdes.UTF8, serdes.JSON)
    assert spec.history_retention_ms is None


@pytest.mark.parametrize("factory", VERSIONED)
def test_a_versioned_description(factory):
    spec = factory("s", 1000, 10)
    assert spec.shape == "versioned"
    assert spec.format is VERSIONED[factory]
    assert (spec.history_retention_ms, spec.segment_interval_ms) == (1000, 10)
    assert factory("s", history_retention_ms=1000, segment_interval_ms=10) == spec


@pytest.mark.parametrize("factory", WINDOW)
def test_a_window_description(factory):
    spec = factory("s", 1000, 10, True, 100, key=serdes.UTF8)
    assert (spec.shape, spec.format, spec.key) == ("window", WINDOW[factory], serdes.UTF8)
    assert (spec.retention_ms, spec.window_size_ms) == (1000, 10)
    assert (spec.retain_duplicates, spec.segment_interval_ms) == (True, 100)
    assert spec.history_retention_ms is None
    named = factory(
        "s",
        retention_ms=1000,
        window_size_ms=10,
        retain_duplicates=True,
        segment_interval_ms=100,
        key=serdes.UTF8,
    )
    assert named == spec
    assert factory("s", 1000, 10).retain_duplicates is False


@pytest.mark.parametrize("factory", SESSION)
def test_a_session_description(factory):
    spec = factory("s", 1000, 100, value=serdes.JSON)
    assert (spec.shape, spec.format, spec.value) == ("session", SESSION[factory], serdes.JSON)
    assert (spec.retention_ms, spec.segment_interval_ms) == (1000, 100)
    assert (spec.window_size_ms, spec.retain_duplicates) == (None, False)
    assert factory("s", retention_ms=1000, segment_interval_ms=100, value=serdes.JSON) == spec


@pytest.mark.parametrize(
    ("retention", "interval"),
    [(0, 60_000), (119_999, 60_000), (120_002, 60_001), (86_400_000, 43_200_000)],
)
def test_the_interval_of_windows_and_sessions_left_out_is_kafkas(retention, interval):
    assert stores.window("s", retention, 0).segment_interval_ms == interval
    assert stores.session_with_headers("s", retention).segment_interval_ms == interval


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"retention_ms": -1}, "retention_ms is -1"),
        ({"retention_ms": None}, r"retention_ms must be an int \(milliseconds\), not NoneType"),
        ({"retention_ms": "5"}, r"retention_ms must be an int \(milliseconds\), not str"),
        ({"retention_ms": 2**63}, r"less than 2\*\*63"),
        ({"window_size_ms": -1}, "window_size_ms is -1"),
        ({"window_size_ms": 1.5}, "window_size_ms must be"),
        ({"window_size_ms": 1001}, "retention_ms=1000, which is less than window_size_ms=1001"),
        ({"segment_interval_ms": 0}, "segment_interval_ms is 0, but must be at least 1"),
        ({"retain_duplicates": 1}, "retain_duplicates is"),
        ({"retain_duplicates": None}, "retain_duplicates is"),
    ],
    ids=str,
)
@pytest.mark.parametrize("factory", WINDOW)
def test_impossible_windows_are_refused(factory, change, text):
    with pytest.raises(SpecError, match=text):
        factory("s", **{"retention_ms": 1000, "window_size_ms": 10, **change})


@pytest.mark.parametrize("factory", SESSION)
@pytest.mark.parametrize(
    ("retention", "interval"), [(-1, None), ("5", None), (None, None), (1000, 0), (1000, 1.5)]
)
def test_impossible_sessions_are_refused(factory, retention, interval):
    with pytest.raises(SpecError, match=r"retention_ms|segment_interval_ms"):
        factory("s", retention, interval)


@pytest.mark.parametrize("factory", [*KEY_VALUE, lambda *a, **k: stores.versioned_key_value(*a, 5)])
def test_serdes_are_bytes_unless_told(factory):
    spec = factory("s")
    assert spec.key is serdes.BYTES
    assert spec.value is serdes.BYTES


@pytest.mark.parametrize(
    "spec",
    [
        stores.key_value("s"),
        stores.timestamped_key_value_with_headers("s", key=serdes.INT64, value=serdes.JSON),
        stores.versioned_key_value_with_headers("s", 1000, value=serdes.FLOAT64),
        stores.timestamped_window_with_headers("s", 1000, 10, True),
        stores.session_with_headers("s", 1000),
    ],
    ids=str,
)
def test_a_description_travels_and_cannot_be_changed(spec):
    copy = pickle.loads(pickle.dumps(spec))
    assert copy == spec
    assert hash(copy) == hash(spec)
    assert copy.format is spec.format
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"


@pytest.mark.parametrize(
    "name", ["a", "A-b_c.9", "x" * 249, "...", "-", "_", ".checkpoints", "..a"]
)
def test_kafkas_names_are_names(name):
    assert stores.key_value(name).name == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "/a", "../a", "a b", "a\n", "a\0", "é", "x" * 250, "a\\b", "~", "a:b",
     ".c", ".checkpoint", ".check", None, 5, b"bytes"],
)  # fmt: skip
def test_what_is_no_store_name_is_refused(name):
    with pytest.raises(SpecError, match="is not a valid store name"):
        stores.key_value(name)


@pytest.mark.parametrize("factory", VERSIONED)
@pytest.mark.parametrize(
    ("retention", "interval"),
    [(-1, None), (1000, 0), (1000, -1), (2**63, None), (1000, 2**63), ("5", None), (5.0, None),
     (None, None), (True, None), (1000, "1"), (1000, 1.5), (1000, True)],
)  # fmt: skip
def test_impossible_times_are_refused(factory, retention, interval):
    with pytest.raises(SpecError, match=r"history_retention_ms|segment_interval_ms"):
        factory("s", retention, interval)


@pytest.mark.parametrize(
    ("retention", "interval"),
    [(0, 2000), (6_000, 2000), (60_000, 20_000), (60_001, 20_000), (300_000, 60_000),
     (300_001, 60_000), (3_600_000, 300_000), (3_600_001, 300_000), (86_400_000, 3_600_000)],
)  # fmt: skip
def test_the_interval_left_out_is_kafkas(retention, interval):
    assert default_segment_interval(retention) == interval
    assert stores.versioned_key_value("s", retention).segment_interval_ms == interval


@pytest.mark.parametrize("role", ["key", "value"])
@pytest.mark.parametrize("serde", [None, "utf8", str, 5], ids=repr)
def test_what_is_no_serde_is_refused(role, serde):
    with pytest.raises(SpecError, match=f"the {role} serde of the store 's'"):
        stores.key_value("s", **{role: serde})


class Nameless:
    def serialize(self, value, headers):
        return value

    def deserialize(self, data, headers):
        return data


class MisNamed(Nameless):
    name = 5


@pytest.mark.parametrize("serde", [Nameless(), MisNamed()])
@pytest.mark.parametrize("role", ["key", "value"])
def test_a_serde_without_a_name_is_refused_before_anything_is_written(role, serde):
    with pytest.raises(SpecError, match=f"the {role} serde of the store 's'.*name"):
        stores.key_value("s", **{role: serde})


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": "window", "format": formats.PLAIN},
        {"shape": "window", "format": formats.SESSION_HEADERS},
        {"shape": "session", "format": formats.TIMESTAMPED},
        {"shape": "session", "format": formats.PLAIN, "retention_ms": 5},
        {"shape": "key_value", "format": formats.PLAIN, "retention_ms": 5},
        {"shape": "key_value", "format": formats.PLAIN, "retain_duplicates": True},
        {"shape": "tree", "format": formats.PLAIN},
        {"shape": None, "format": formats.PLAIN},
        {"shape": "versioned", "format": formats.PLAIN},
        {"shape": "key_value", "format": formats.VERSIONED},
        {"shape": "key_value", "format": "plain"},
        {"shape": "versioned", "format": formats.VERSIONED},
        {"shape": "versioned", "format": formats.VERSIONED, "history_retention_ms": 5},
    ],
    ids=str,
)
def test_a_description_made_by_hand_is_checked_too(arguments):
    with pytest.raises(SpecError):
        StoreSpec("s", **arguments)


@pytest.mark.parametrize("change", [{"history_retention_ms": -5}, {"segment_interval_ms": 0}])
def test_a_changed_description_is_checked_too(change):
    with pytest.raises(SpecError):
        dataclasses.replace(stores.versioned_key_value("s", 5), **change)


def test_every_factory_is_public():
    for factory in (*KEY_VALUE, *VERSIONED, *WINDOW, *SESSION):
        assert factory.__name__ in stores.__all__
    assert stores.StoreSpec is StoreSpec
