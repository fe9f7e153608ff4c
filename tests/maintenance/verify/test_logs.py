"""Changelogs: read whole, and compared with the store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.changelog import FileChangelog, LogConfig, topic_config
from kstore_core.changelog.files.segment import Segment, list_segments
from kstore_core.codec import VersionedRecord
from kstore_core.errors import CorruptionError
from kstore_core.maintenance.verify import Verified, comparing, logs, verify
from kstore_core.maintenance.verify.logs import check_end, check_log
from kstore_core.spec import StoreSpec
from tests.changelog.logs import before_call, fill, open_log
from tests.maintenance.verify.stores import hashed, plant

pytestmark = pytest.mark.usefixtures("one_process")

SPEC = stores.timestamped_key_value("s").with_changelog({"segment.bytes": "3000"})
TOPIC = "app-s-changelog"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store, and its log in three segments."""
    for part in range(3):
        with open_state(
            tmp_path / "app" / "0_2", engine="lmdb", changelog=tmp_path / "logs"
        ) as state:
            store = state.open(SPEC)
            for number in range(100):
                store.put(b"k%03d" % (number + 50 * part), b"v" * 20, timestamp=number)
    assert len(list_segments(tmp_path / "logs" / f"{TOPIC}-2")) == 3
    return tmp_path / "app" / "0_2"


def log_of(root: Path) -> Path:
    return root.parents[1] / "logs" / f"{TOPIC}-2"


def looked(root: Path, *, compare: bool = True) -> Verified:
    logs = root.parents[1] / "logs"
    before = hashed(logs)
    found = verify(root, changelog=logs, compare=compare)
    assert hashed(logs) == before
    return found


def test_a_sound_one(root: Path) -> None:
    found = looked(root)
    assert found.findings == []
    assert (found.counts.log_records, found.counts.compared) == (300, 200)


def test_damage_in_one_segment_keeps_no_other_from_being_read(root: Path) -> None:
    segment = list_segments(log_of(root))[1].path
    data = bytearray(segment.read_bytes())
    data[100] ^= 4
    segment.write_bytes(data)
    found = looked(root, compare=False)
    (hit,) = found.findings
    assert (hit.what, hit.severity, found.exit_code) == ("log", "corrupt", 4)
    assert str(segment) in hit.why
    assert "copy of the log" in hit.remedy
    assert found.counts.log_records == 200


def test_a_segment_that_is_missing(root: Path) -> None:
    list_segments(log_of(root))[1].path.unlink()
    (hit,) = looked(root, compare=False).findings
    assert "ends at offset 100, so a file is missing" in hit.why
    assert hit.severity == "corrupt"


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (b"\x00" * 50, "50 zero bytes, which a power cut leaves"),
        (b"\x00" * 6 + b"\x01\x2c" + b"\x00\x00\x10\x00half", "bytes of an incomplete batch"),
    ],
    ids=["zeros", "half"],
)
def test_a_tail_that_was_not_written_to_its_end(root: Path, rest: bytes, why: str) -> None:
    with list_segments(log_of(root))[-1].path.open("ab") as file:
        file.write(rest)
    found = looked(root, compare=False)
    (hit,) = found.findings
    assert (hit.severity, found.exit_code) == ("note", 0)
    assert why in hit.why
    assert "the next writer moves these bytes to 00000000000000000200.log.cut-<n>" in hit.why


def test_a_tail_that_is_none_of_a_batch(root: Path) -> None:
    """Bytes that no interrupted write can have left: the batch that comes next has offset 300."""
    with list_segments(log_of(root))[-1].path.open("ab") as file:
        file.write(b"\x00" * 7 + b"\x2c" + b"\x00\x00\x10\x00half")
    (hit,) = looked(root, compare=False).findings
    assert (hit.severity, hit.what) == ("corrupt", "log")
    assert "its first bytes do not fit a batch that begins at offset 300" in hit.why


def test_a_batch_that_was_cut_off_a_segment_that_is_not_the_last(root: Path) -> None:
    segment = list_segments(log_of(root))[0].path
    segment.write_bytes(segment.read_bytes()[:-1])
    found = looked(root, compare=False)
    assert found.exit_code == 4
    assert any("a batch is damaged or cut off" in finding.why for finding in found.findings)


def test_what_differs_from_the_log(root: Path) -> None:
    """What no checksum guards: another value of the right form, a row too many, one too few."""
    rows = {b"k001": bytes(8) + b"other", b"kxyz": bytes(8) + b"new", b"k002": None}
    plant(root, "lmdb", SPEC, SPEC.format.namespace, rows)
    assert looked(root, compare=False).findings == []
    found = looked(root)
    assert {finding.place.key: finding.why.split(" of ")[0] for finding in found.findings} == {
        b"k001": "the record in the store differs from the record that a restore",
        b"kxyz": "the store has a record that a restore",
        b"k002": "a restore",
    }
    assert found.exit_code == 4


@pytest.mark.parametrize("does", ["append", "compact"])
def test_a_log_that_a_writer_changes_during_the_comparison(
    root: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    def change_and_open(path: Path, **options: Any) -> Any:
        if "read_only" not in options:  # the second store is about to be restored
            with FileChangelog(root.parents[1] / "logs", TOPIC, 2) as log:
                if does == "append":
                    log.append(b"k002", None, 1)
                else:
                    assert log.compact().records
        return open_state(path, **options)

    plant(root, "lmdb", SPEC, SPEC.format.namespace, {b"k001": bytes(8) + b"other"})
    monkeypatch.setattr(comparing, "open_state", change_and_open)
    found = verify(root, changelog=root.parents[1] / "logs", compare=True)
    (hit,) = found.findings
    assert (hit.severity, hit.what, found.exit_code) == ("note", "compare", 0)
    assert "Stop the writer, and compare again" in hit.why


@pytest.mark.parametrize(
    ("spec", "times"),
    [
        (stores.timestamped_window("s", 40_000, 10), ["timestamp", "window_start"]),
        (stores.versioned_key_value("s", 40_000), ["timestamp"]),
        (stores.versioned_key_value_with_headers("s", 40_000), ["timestamp"]),
    ],
    ids=["window", "versions", "versions and headers"],
)
def test_a_store_whose_log_lacks_what_the_clock_has_removed(
    tmp_path: Path, spec: StoreSpec, times: list[str]
) -> None:
    """The store expires by the time of its records, and its log by the time of the machine."""
    logs, home = tmp_path / "logs", tmp_path / "app" / "0_2"
    spec = spec.with_changelog({"segment.bytes": "300"})
    with open_state(home, engine="lmdb", changelog=logs) as state:
        store = state.open(spec)
        for number in range(100):
            store.put(b"k%d" % (number % 5), b"v", **dict.fromkeys(times, number * 1000))
            if number % 10 == 9:
                state.commit()
    config = LogConfig.of_topic(topic_config(spec, dict(spec.changelog)))
    with FileChangelog(logs, TOPIC, 2, config=config) as log:
        assert log.compact().records
    found = verify(home, changelog=logs, compare=True)
    (hit,) = found.findings
    assert (hit.severity, hit.what, found.exit_code) == ("finding", "compare", 1)
    assert "have records in the store that a restore of" in hit.why


def test_a_store_whose_log_lacks_the_latest_time(tmp_path: Path) -> None:
    """A tombstone had it, and a compaction has removed the tombstone. An older row has expired."""
    logs, home = tmp_path / "logs", tmp_path / "app" / "0_2"
    spec = stores.timestamped_window("s", 40_000, 10)
    with open_state(home, engine="lmdb", changelog=logs) as state:
        store = state.open(spec)
        for key, value, at in ((b"old", b"v", 10), (b"k", b"v", 500_000), (b"k", None, 500_000)):
            store.put(key, value, timestamp=at, window_start=at)
            state.commit()
        store.put(b"z", b"v", timestamp=499_000, window_start=499_000)
        state.commit()
    for days in (0, 2):
        clock = partial(float, time.time() + days * 86_400)
        with FileChangelog(logs, TOPIC, 2, clock=clock) as log:
            log.roll()
            log.compact()
    with FileChangelog(logs, TOPIC, 2, read_only=True) as log:
        keys = {key for columns in log.read() for key in columns.keys}
        assert not any(key.startswith(b"k") for key in keys)
    assert verify(home, changelog=logs, compare=True).findings == []


def test_only_records_that_are_missing_in_a_log_are_put_down_to_compaction() -> None:
    newest, other = VersionedRecord(b"b", 2), VersionedRecord(b"c", 2)
    stored = [VersionedRecord(b"a", 1, valid_to=2), newest]
    assert comparing._has_all(stored, [newest])
    assert comparing._has_all(stored, [VersionedRecord(b"a", 1, valid_to=9)])
    assert comparing._has_all(stored, None)
    assert comparing._has_all([b"same", b"same"], [b"same"])
    assert not comparing._has_all([b"same"], [b"same", b"same"])
    assert not comparing._has_all([newest], [VersionedRecord(b"b", 2, valid_to=3)])
    assert not comparing._has_all(stored, [other])
    assert not comparing._has_all([newest], stored)
    assert not comparing._has_all(None, stored)
    assert not comparing._has_all(b"a", b"b")


@pytest.mark.parametrize(("check", "misses"), [(check_log, 0), (check_log, 1), (check_end, 0)])
def test_a_log_that_is_compacted_while_it_is_read(
    check: Callable[..., Iterator[Any]], misses: int, tmp_path: Path
) -> None:
    """Before each time that a file is opened, listed or examined; a missing file is still found."""

    def compact_and_append(log: FileChangelog) -> None:
        log.config = LogConfig(segment_bytes=10**6)
        log.roll()
        with suppress(CorruptionError):
            log.compact()
        fill(log, 40)

    for number in count(1):
        with open_log(tmp_path / str(number), segment_bytes=700) as log:
            fill(log, 60, keys=30)
            if misses:
                list_segments(log.path)[1].path.unlink()
            with before_call(number, partial(compact_and_append, log)) as was_called:
                found = [one for one in check(log.path, {}) if isinstance(one, tuple)]
        assert len(found) == misses, (number, found)
        if not was_called():
            break
    assert number > 5


@pytest.mark.parametrize("all_files", [False, True], ids=["first", "all"])
def test_files_that_are_lost_after_they_were_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch, all_files: bool
) -> None:
    moment = logs._moment

    def lose_and_look(segments: list[Segment], segment: Segment) -> Any:
        for one in segments if all_files else segments[:1]:
            one.path.unlink()
        monkeypatch.undo()
        return moment(segments, segment)

    monkeypatch.setattr(logs, "_moment", lose_and_look)
    (found,) = [one for one in check_log(log_of(root), {}) if isinstance(one, tuple)]
    assert found[0] == "corrupt"
    assert ("now has no batch" if all_files else "the first file of the log") in found[1].why


def test_a_store_that_is_behind_its_log(root: Path) -> None:
    with FileChangelog(root.parents[1] / "logs", TOPIC, 2) as log:
        log.append(b"k", None, 1)
    found = looked(root)
    (hit,) = found.findings
    assert (hit.severity, hit.what) == ("note", "compare")
    assert "up to offset 299, but the log's last offset is 300" in hit.why


def test_a_store_that_is_ahead_of_its_log(root: Path) -> None:
    for segment in list_segments(log_of(root))[2:]:
        segment.path.unlink()
    found = looked(root)
    assert any("has lost its end" in finding.why for finding in found.findings)
    assert found.exit_code == 4


def test_a_log_without_files(root: Path) -> None:
    with open_state(root, changelog=root.parents[1] / "logs") as state:
        state.open(stores.key_value("new"))
    assert looked(root, compare=False).findings == []
    for segment in list_segments(log_of(root)):
        segment.path.unlink()
    found = looked(root, compare=False)
    (hit,) = found.findings
    assert (hit.what, hit.severity, hit.place.store, found.exit_code) == ("log", "corrupt", "s", 4)
    assert hit.why.startswith(f"{log_of(root)} has no files, but the store contains the log up to ")
    assert "offset 299" in hit.why


def test_a_log_that_may_be_another_stores(root: Path) -> None:
    logs = root.parents[1] / "logs"
    with open_state(root, changelog=logs) as state:
        state.open(stores.key_value("b-s")).put(b"k", b"v")
    assert looked(root).findings == []  # each has the one that its application names
    log = (logs / f"{TOPIC}-2").rename(logs / "my-app-s-changelog-2")
    found = verify(root, "s", changelog=logs)
    (hit,) = found.findings
    assert "may belong to another store" in hit.why
    assert verify(root, "s", changelog=log).counts.log_records == 300


def test_no_log(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = verify(root, changelog=tmp_path / "empty", compare=True)
    (hit,) = found.findings
    assert (hit.severity, found.exit_code) == ("finding", 1)
    assert "no changelog of the store" in hit.why


@pytest.mark.parametrize("spilled", [False, True])
def test_what_a_killed_commit_left_is_no_difference(tmp_path: Path, spilled: bool) -> None:
    """Its rows in the log alone are in neither; spilled, they are in the store and not restored."""
    place, logs = tmp_path / "app" / "0_2", tmp_path / "logs"
    with open_state(place, engine="lmdb", changelog=logs, uncommitted_max_bytes=500) as state:
        store = state.open(SPEC)
        store.put(b"k", b"1", timestamp=1)
        state.commit({("in", 0): 1})
        if not spilled:
            shutil.copytree(place, tmp_path / "killed" / "app" / "0_2")
        for number in range(30):
            store.put(b"k%d" % number, b"v" * 20, timestamp=number)
        if spilled:
            shutil.copytree(place, tmp_path / "killed" / "app" / "0_2")
        shutil.copytree(logs, tmp_path / "killed" / "logs")
    found = looked(tmp_path / "killed" / "app" / "0_2")
    assert [(hit.severity, hit.what) for hit in found.findings] == [("note", "compare")] * spilled
    assert (found.counts.compared, found.exit_code) == (not spilled, 0)
    with open_state(
        tmp_path / "killed" / "app" / "0_2", changelog=tmp_path / "killed" / "logs"
    ) as state:
        assert state.open(SPEC).offsets()["in", 0] == 1
    found = looked(tmp_path / "killed" / "app" / "0_2")
    assert found.findings == []
    assert found.counts.compared >= 1
