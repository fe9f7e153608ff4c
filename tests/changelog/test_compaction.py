"""What compaction takes out and what it leaves, and that a crash in it loses nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.changelog import FileChangelog, LogConfig, topic_config
from kstore_core.changelog.files import compaction
from kstore_core.changelog.files.segment import Segment, heads, list_segments
from kstore_core.changelog.files.start import noted_start
from kstore_core.codec import LogRecord
from kstore_core.errors import CorruptionError, EngineError
from kstore_core.stores import versioned_key_value
from tests.changelog.logs import (
    before_call,
    bytes_of,
    contents,
    files,
    fill,
    open_log,
    read_whole,
)
from tests.support.kafka_python import read_by_kafka_python

HOUR = 3_600_000


class Clock:
    """The time, in seconds, which stands still."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> float:
        return self.ms / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def latest(records: list[LogRecord]) -> dict[bytes | None, LogRecord]:
    return {record.key: record for record in records}


def live(records: list[LogRecord]) -> dict[bytes | None, bytes]:
    """What a store restored from the records holds."""
    return {k: r.value for k, r in latest(records).items() if r.value is not None}


def put(log: FileChangelog, *pairs: tuple[bytes, bytes | None], timestamp: int = 0) -> None:
    for key, value in pairs:
        log.append(key, value, timestamp)
    log.commit()


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.none() | st.binary(max_size=2)),
        st.tuples(st.sampled_from(["commit", "roll", "compact", "reopen"])),
        st.tuples(st.just("wait"), st.integers(0, 3 * HOUR)),
    ),
    max_size=60,
)


@settings(max_examples=80)
@given(steps=STEPS, max_keys=st.sampled_from([1, 2, 10**6]))
def test_a_store_restored_from_a_compacted_log_is_the_same(
    steps: list[Any], max_keys: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And one that reads on from any offset gets every key's last record from there on."""
    clock = Clock()
    root = tmp_path_factory.mktemp("log")
    options: dict[str, Any] = {"segment_bytes": 400, "delete_retention_ms": HOUR, "clock": clock}
    log = open_log(root, **options)
    everything: list[LogRecord] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "_MAX_KEYS", max_keys)
        for name, *arguments in steps:
            if name == "put":
                everything.append(LogRecord(log.end_offset, clock.ms, *arguments))
                log.append(*arguments, clock.ms)
            elif name == "wait":
                clock.ms += arguments[0]
            elif name == "reopen":
                log.commit()
                log.close()
                log = open_log(root, **options)
            else:
                getattr(log, name)()
        log.commit()
    found = contents(log)
    assert live(found) == live(everything)
    assert [r.offset for r in found] == sorted({r.offset for r in found})
    assert {r.offset: r for r in found}.items() <= {r.offset: r for r in everything}.items()
    assert read_by_kafka_python(bytes_of(log)) == found
    ends = [r.offset for r in everything] + [log.end_offset]
    for offset in ends:
        kept = latest([r for r in everything if r.offset >= offset])
        assert [r for r in contents(log, offset) if r.value is not None and kept[r.key] == r] == [
            r for r in sorted(kept.values(), key=lambda r: r.offset) if r.value is not None
        ]
    log.close()
    assert read_whole(root) == found


def test_only_the_last_of_a_key_stays_and_nothing_of_the_last_segment_goes(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        fill(log, 50, keys=3)
        assert log.compact().records == 0
        log.roll()
        fill(log, 4, keys=3)
        done = log.compact()
        assert done.records == 47
        assert done.bytes > 1000
        assert [r.offset for r in contents(log)] == [47, 48, 49, 50, 51, 52, 53]
        before = bytes_of(log)
        assert log.compact() == compaction.Compacted(0, 0)
        assert bytes_of(log) == before
        assert (log.start_offset, log.high_watermark) == (0, 54)


def test_small_segments_become_one(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        for _ in range(20):
            fill(log, 5)
            log.roll()
        assert len(files(log)) == 20
        log.compact()
        assert files(log) == ["00000000000000000000.log"]
        assert [r.offset for r in contents(log)] == list(range(93, 100))
        fill(log, 1)
        assert files(log)[1] == "00000000000000000100.log"


def test_a_tombstone_stays_until_its_grace_is_over(tmp_path: Path, clock: Clock) -> None:
    with open_log(tmp_path, delete_retention_ms=HOUR, clock=clock) as log:
        put(log, (b"a", b"1"), (b"b", b"1"), (b"a", None))
        log.roll()
        put(log, (b"c", b"1"))
        log.compact()
        assert [(r.key, r.value) for r in contents(log)][:2] == [(b"b", b"1"), (b"a", None)]
        clock.ms += HOUR - 1
        assert log.compact().records == 0
        clock.ms += 1
        assert log.compact().records == 1
        assert [r.key for r in contents(log)] == [b"b", b"c"]
        assert log.compact() == compaction.Compacted(0, 0)


def test_the_history_of_a_versioned_store_outlives_compaction(tmp_path: Path, clock: Clock) -> None:
    config = LogConfig.of_topic(topic_config(versioned_key_value("s", HOUR)))
    assert config.min_compaction_lag_ms == 25 * HOUR
    with FileChangelog(tmp_path, "t", config=config, clock=clock) as log:
        start = clock.ms
        for hour in range(3):
            put(log, (b"k", b"%d" % hour), timestamp=start + hour * HOUR)
            log.roll()
        put(log, (b"k", b"last"), timestamp=start + 3 * HOUR)
        clock.ms = start + 26 * HOUR - 1
        assert log.compact().records == 0  # the first is 26 hours old, but no later one is too old
        clock.ms += 1
        assert log.compact().records == 1
        clock.ms += HOUR
        assert log.compact().records == 1
        assert [r.value for r in contents(log)] == [b"2", b"last"]


def test_segments_expire_whole(tmp_path: Path, clock: Clock) -> None:
    with open_log(tmp_path, compact=False, retention_ms=HOUR, clock=clock) as log:
        start = clock.ms
        for minutes in (0, 30, 10, 60):
            put(log, (b"k", b"%d" % minutes), timestamp=start + minutes * 60_000)
            log.roll()
        clock.ms = start + HOUR
        assert log.compact().records == 0
        clock.ms += 1
        assert log.compact().records == 1
        assert (log.start_offset, [r.value for r in contents(log)]) == (1, [b"30", b"10", b"60"])
        assert [r.offset for r in contents(log, 0)] == [1, 2, 3]
        clock.ms += 10 * HOUR
        assert log.compact().records == 2, "the last file says where the log ends"
        put(log, (b"k", b"new"), timestamp=clock.ms)
        assert log.compact().records == 1
        assert [(r.offset, r.value) for r in contents(log)] == [(4, b"new")]
    assert len(read_whole(tmp_path)) == 1


def test_damage_stops_compaction_and_changes_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        fill(log, 30)
        log.roll()
        path = log.path / files(log)[0]
        data = bytearray(path.read_bytes())
        data[-3] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptionError, match="its checksum"):
            log.compact()
        assert files(log) == [path.name]
        assert path.read_bytes() == data


def test_damage_that_no_checksum_covers_stops_compaction(tmp_path: Path) -> None:
    """A base offset that is too high would make records supersede what came after them."""
    with open_log(tmp_path, segment_bytes=500) as log:
        fill(log, 60)
        for name in files(log)[:-1]:
            path = log.path / name
            data = path.read_bytes()
            (*_, head) = heads(Segment(int(name[:20]), path))
            bad = bytearray(data)
            bad[head.at + 7] += 40
            path.write_bytes(bad)
            with pytest.raises(
                CorruptionError,
                match=rf"{name} ends at offset \d+, but the next segment begins at offset",
            ):
                log.compact()
            with pytest.raises(CorruptionError, match="no segment contains offset"):
                contents(log)
            path.write_bytes(data)
        assert log.compact().records


@pytest.mark.parametrize("is_lost", [False, True], ids=["cut", "lost"])
def test_damage_that_comes_after_the_check_stops_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """In a merged segment, offsets that are missing would look like superseded ones."""
    check = compaction._check_joints

    def check_and_damage(directory: Path, active: Segment) -> None:
        check(directory, active)
        segment = list_segments(directory)[1]
        *_, last = heads(segment)
        if is_lost:
            segment.path.unlink()
        else:
            os.truncate(segment.path, last.at)

    with open_log(tmp_path, segment_bytes=900) as log:
        fill(log, 100, keys=100)
        log.config = LogConfig(segment_bytes=10**6)
        before = files(log)
        monkeypatch.setattr(compaction, "_check_joints", check_and_damage)
        with pytest.raises(CorruptionError, match=f"{before[0]} ends at|{before[1]} ends at"):
            log.compact()
        assert set(before) - set(files(log)) == ({before[1]} if is_lost else set())
        with pytest.raises(CorruptionError, match="no segment contains offset"):
            contents(log)


# ---------------------------------------------------------------- crashes


class CrashError(Exception):
    """The process ends here."""


def crashing(at: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper of calls of which number `at` does not happen, nor any after it."""
    count = 0

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count >= at:
                raise CrashError
            return real(*arguments, **options)

        return call

    return wrap


@pytest.mark.parametrize("at", range(1, 16))
def test_a_crash_at_any_step_loses_nothing(at: int, tmp_path: Path, clock: Clock) -> None:
    """Every rename, removal and sync is a step; the process ends in front of one of them."""
    options: dict[str, Any] = {"segment_bytes": 900, "delete_retention_ms": HOUR, "clock": clock}
    log = open_log(tmp_path, **options)
    for number in range(8):
        put(log, *((b"k%d" % (key % 5), b"%d" % number) for key in range(number, number + 3)))
        put(log, (b"gone", None if number > 3 else b"x"))
        log.roll()
    put(log, (b"last", b"1"))
    before = contents(log)
    wrap = crashing(at)
    crashed = False
    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((Path, "replace"), (Path, "unlink"), (os, "fsync")):
            patch.setattr(place, name, wrap(getattr(place, name)))
        try:
            log.compact()
        except CrashError:
            crashed = True
    found = read_whole(tmp_path)
    assert live(found) == live(before)
    for offset in range(len(before) + 1):
        with open_log(tmp_path, read_only=True) as reader:
            kept = latest(before[offset:])
            assert latest(contents(reader, offset)) == kept
    log.close()
    with open_log(tmp_path, **options) as log:
        assert not [name for name in files(log) if not name.endswith(".log")]
        assert live(contents(log)) == live(before)
        log.compact()
        log.compact()  # what has become smaller fits into fewer segments
        once = bytes_of(log)
        log.compact()
        assert bytes_of(log) == once
        assert latest(contents(log)) == latest(before)
        clock.ms += HOUR
        log.compact()
        assert live(contents(log)) == live(before)
        assert b"gone" not in latest(contents(log))
    assert crashed or at > 10


def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(28, "No space left on device")

    with open_log(tmp_path) as log:
        fill(log, 30)
        log.roll()
        before = bytes_of(log)
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(EngineError, match="No space left"):
            log.compact()
        monkeypatch.undo()
        assert bytes_of(log) == before
        assert log.compact().records == 23


def test_a_crash_that_interrupts_expiry_leaves_the_first_offset(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path, compact=False, retention_ms=HOUR, clock=clock) as log:
        for _ in range(2):
            put(log, (b"k", b"v"), timestamp=clock.ms)
            log.roll()
        clock.ms += HOUR + 1
        monkeypatch.setattr(Path, "replace", crashing(1)(Path.replace))
        with pytest.raises(CrashError):
            log.compact()
        monkeypatch.undo()
        assert noted_start(log.path) == 0
        (log.path / files(log)[0]).unlink()
        with pytest.raises(CorruptionError, match="the first file of the log"):
            log.compact()


# ---------------------------------------------------------------- readers meanwhile


def test_a_reader_goes_on_through_a_compaction(tmp_path: Path) -> None:
    """At every point of a read the log is compacted under it, and segments are merged."""
    for stop in range(12):
        root = tmp_path / str(stop)
        with open_log(root, segment_bytes=700) as log:
            fill(log, 120, keys=120)
            fill(log, 30, keys=5)
            log.roll()
            before = contents(log)
            reading = log.read()
            found = [record for _ in range(stop) for record in next(reading, ())]
            log.config = LogConfig(segment_bytes=10**6)
            assert log.compact().records
            found += [record for columns in reading for record in columns]
            assert live(found) == live(before)
            assert [r.offset for r in found] == sorted({r.offset for r in found})


def test_segments_are_listed_while_a_compaction_removes_the_merged_ones(tmp_path: Path) -> None:
    """Before each time that the listing opens, lists or examines a file."""
    for number in range(1, 10):
        with open_log(tmp_path / str(number), segment_bytes=900) as log:
            fill(log, 120)
            log.config = LogConfig(segment_bytes=10**6)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Path, "unlink", crashing(1)(Path.unlink))
                with pytest.raises(CrashError):
                    log.compact()
            with before_call(number, lambda path=log.path: compaction.tidy(path)) as was_called:
                assert len(list_segments(log.path)) == 2
            if not was_called():
                break
    assert number > 3


def test_a_reader_goes_on_in_a_segment_that_a_compaction_made_longer(tmp_path: Path) -> None:
    """The time at which a tombstone may go makes its batch longer."""
    with open_log(tmp_path) as log:
        for number in range(20):
            put(log, (b"%d" % number, None), timestamp=number)
        before = contents(log)
        reading = log.read()
        size = len(bytes_of(log))
        log.roll()
        put(log, (b"last", None))
        log.compact()
        assert (log.path / files(log)[0]).stat().st_size > size
        found = [record for columns in reading for record in columns]
        assert [record.key for record in found[:20]] == [record.key for record in before]


def test_a_reader_begins_at_the_first_record_while_records_expire(
    tmp_path: Path, clock: Clock
) -> None:
    """Before each time that the reader opens, lists or examines a file."""

    def expire(log: FileChangelog) -> None:
        for _ in range(2):
            put(log, (b"k", b"v"), timestamp=clock.ms)
            log.roll()
        clock.ms += HOUR + 1
        put(log, (b"k", b"newest"), timestamp=clock.ms)
        log.compact()

    options: dict[str, Any] = {"compact": False, "retention_ms": HOUR, "clock": clock}
    for number in range(1, 40):
        root = tmp_path / str(number)
        with open_log(root, **options) as log, open_log(root, read_only=True) as reader:
            put(log, (b"k", b"v"), timestamp=clock.ms)
            log.roll()
            with before_call(number, partial(expire, log)) as was_called:
                offsets = [record.offset for record in contents(reader)]
            assert offsets in ([0], [], [3]), number
        if not was_called():
            break
    assert number > 5
