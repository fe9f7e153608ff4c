"""Positions that a log's records say: Kafka Streams notes them in the headers ``v`` and ``c``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.changelog import FileChangelog, changelog_topic
from kstore_core.codec import RecordColumns
from kstore_core.offsets.position import LoggedPositions, encode_position
from kstore_core.query import KeyQuery, PositionBound, VersionedKeyQuery
from kstore_core.testing.kinds import KEY_VALUE, KINDS, VERSIONED, Kind
from tests.restore.batches import small_batches
from tests.restore.stores import APPLICATION, logs, open_log, spec_of, write
from tests.support.engines import ENGINES

pytestmark = pytest.mark.usefixtures("left_sound")

VERSION = ("v", b"\0")


def noted(**partitions: int) -> list[tuple[str, bytes | None]]:
    position = {"in": {int(number[1:]): offset for number, offset in partitions.items()}}
    return [VERSION, ("c", encode_position(position))]


def columns(*headers: Any) -> RecordColumns:
    records = RecordColumns()
    for offset, pairs in enumerate(headers):
        records.append(offset, offset, b"k%d" % offset, b"v", pairs)
    return records


def logged_position(records: RecordColumns) -> dict[str, dict[int, int]]:
    positions = LoggedPositions()
    positions.note(records)
    return positions.until(records.next_offset)


def test_the_furthest_of_all_records_counts() -> None:
    records = columns(noted(p0=5, p1=1), [], noted(p0=4, p2=0), [("v", b"\0")], [("c", b"x")])
    assert logged_position(records) == {"in": {0: 5, 1: 1, 2: 0}}
    assert logged_position(RecordColumns()) == {}


def test_the_last_header_of_a_name_counts() -> None:
    assert logged_position(columns([*noted(p0=5), *noted(p0=3)])) == {"in": {0: 3}}


@pytest.mark.parametrize(
    "headers",
    [
        [("c", encode_position({"in": {0: 5}}))],
        [("v", b"\1"), ("c", encode_position({"in": {0: 5}}))],
        [("v", b"\0\0"), ("c", encode_position({"in": {0: 5}}))],
        [("v", None), ("c", encode_position({"in": {0: 5}}))],
        [("x", b"\2v\2\0"), ("c", encode_position({"in": {0: 5}}))],
        [VERSION, ("c", None)],
    ],
    ids=str,
)
def test_headers_that_are_something_else_are_passed_over(headers: Any) -> None:
    assert logged_position(columns(headers)) == {}


@pytest.mark.parametrize("size", [1, 10**6], ids=["small batches", "one batch"])
@pytest.mark.parametrize("kind", [KEY_VALUE[2], VERSIONED[0]], ids=str)
def test_damaged_positions_are_passed_over_with_one_warning(
    kind: Kind, size: int, tmp_path: Path, caplog: Any
) -> None:
    topic = changelog_topic(APPLICATION, "s")
    with FileChangelog(tmp_path / "logs", topic, 0) as log:
        for number in range(9):
            damaged = [VERSION, ("c", b"\1")]
            log.append(b"k", b"v", number, damaged if number % 3 == 2 else noted(p0=number))
            log.commit()
    with open_state(tmp_path / "0_0", engine="memory") as state, small_batches(size):
        with open_log(tmp_path / "logs") as log:
            state.restore(spec_of(kind), log)
        assert state.open(spec_of(kind)).position == {"in": {0: 7}}
        (said,) = [record.getMessage() for record in caplog.records]
        assert "the position in 3 records of the changelog" in said
        assert f"{topic}-0 was ignored" in said
        assert "the first of these records is at offset 2: " in said
        with open_log(tmp_path / "logs") as log:
            state.restore(spec_of(kind), log)
        assert len(caplog.records) == 1, "what is contained is not read again"


def test_a_position_is_not_taken_before_its_records() -> None:
    positions = LoggedPositions()
    for begin in (0, 10):
        records = RecordColumns()
        records.append(begin, 0, b"k", b"v", noted(p0=begin))
        positions.note(records)
    assert positions.until(10) == {"in": {0: 0}}
    assert positions.until(11) == {"in": {0: 10}}
    assert positions.until(11) == {}


def test_records_are_found_by_bytes_of_their_headers() -> None:
    records = columns([("ab", b"1")], [], [("b", b"ab")], [("a", b"b")])
    assert records.with_header_bytes(b"ab") == [0, 2]
    assert records.with_header_bytes(b"a") == [0, 2, 3]
    assert records.with_header_bytes(b"") == [0, 1, 2, 3]
    assert records.with_header_bytes(b"\4ab\2" + b"1") == [0]
    assert records.with_header_bytes(b"x" * 1000) == []


def test_records_are_found_by_their_key() -> None:
    records = RecordColumns()
    for offset, key in enumerate([b"a", None, b"", b"ab", b"a", b"b", bytearray(b"")]):
        records.append(offset, 1, key, b"a")
    assert records.with_key(b"a") == [0, 4]
    assert records.with_key(b"") == [2, 6]
    assert records.with_key(b"ab") == [3]
    assert records.with_key(b"x" * 1000) == []


def as_logged_by_kafka(root: Path, kind: Kind) -> None:
    """The log of a store, each record with the position that its writer had."""
    ops: list[Any] = [(b"k%d" % (n % 5), b"%d" % n, n, [("h", b"1")]) for n in range(40)]
    with open_state(root / "0_0", engine="memory", changelog=logs(root / "plain")) as state:
        write(kind, state.open(spec_of(kind)), ops)
    topic = changelog_topic(APPLICATION, "s")
    with open_log(root / "plain") as log, FileChangelog(root / "logs", topic, 0) as other:
        for batch in log.read():
            for record in batch:
                assert record.key is not None
                headers = [*record.headers, *noted(p0=record.offset * 10, p1=3)]
                other.append(record.key, record.value, record.timestamp, headers)
                other.commit()


@pytest.mark.parametrize("size", [1, 10**6], ids=["small batches", "one batch"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_restored_store_is_where_its_writer_was(kind: Kind, size: int, tmp_path: Path) -> None:
    as_logged_by_kafka(tmp_path, kind)
    spec = spec_of(kind)
    with open_state(tmp_path / "new", engine="memory") as state, small_batches(size):
        with open_log(tmp_path / "logs") as log:
            state.restore(spec, log)
            wanted = {"in": {0: (log.high_watermark - 1) * 10, 1: 3}}
        store = state.open(spec)
        assert store.position == wanted
        with state.record(topic="in", partition=0, offset=5):
            write(kind, store, [(b"k1", b"x", 40, [])])
        assert store.position == wanted, "further than an older record"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [KEY_VALUE[2], VERSIONED[0]], ids=str)
def test_it_is_committed_with_the_rows(kind: Kind, engine: str, tmp_path: Path) -> None:
    as_logged_by_kafka(tmp_path, kind)
    spec = spec_of(kind)
    with open_state(tmp_path / "1_0", engine=engine) as state:
        with open_log(tmp_path / "logs") as log:
            state.restore(spec, log)
            end = log.high_watermark - 1
        asked = (KeyQuery if kind.shape == "key_value" else VersionedKeyQuery)(b"k1")
        bound = PositionBound.at({"in": {0: end * 10, 1: 10**6}})
        assert state.open(spec).query(asked, bound=bound).get() is not None
        assert (
            not state.open(spec).query(asked, bound=PositionBound.at({"in": {0: 10**6}})).is_success
        )
    if engine != "memory":
        with open_state(tmp_path / "1_0", read_only=True) as state:
            assert state.open(spec).position == {"in": {0: end * 10, 1: 3}}


def test_kafkas_headers_become_part_of_a_value_as_in_kafka(tmp_path: Path) -> None:
    """All headers of a record are restored, those two among them."""
    kind = KEY_VALUE[2]
    as_logged_by_kafka(tmp_path, kind)
    with open_state(tmp_path / "new", engine="memory") as state:
        with open_log(tmp_path / "logs") as log:
            state.restore(spec_of(kind), log)
        assert [key for key, _ in state.open(spec_of(kind)).get(b"k0").headers] == ["h", "v", "c"]
