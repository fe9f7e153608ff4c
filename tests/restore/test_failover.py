"""The active is killed, a standby takes over and goes on: nothing comes twice, nothing is lost."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.changelog import FileChangelog, whole
from kstore_core.changelog.files import compaction, segment
from kstore_core.changelog.marks import MARK_KEY, Begin, Commit, append_mark, parse
from kstore_core.changelog.whole import without_marks
from kstore_core.codec import RecordColumns
from kstore_core.errors import FormatError
from kstore_core.restore import replay as restore_log
from kstore_core.restore import spool as restore_parts
from kstore_core.state.commits import StoreCommits
from kstore_core.testing.kinds import KINDS, LAYERED, WINDOW, Kind
from tests.restore import killed
from tests.restore.failover import (
    TOPIC,
    count_in,
    cut_copy,
    duplicates_of,
    last_returned,
    open_log,
    run,
    size_of,
    some_input,
    undisturbed,
)
from tests.restore.stores import contents, spec_of
from tests.support.engines import ENGINES, Home

EVERY_KIND = [*KINDS, *LAYERED, duplicates_of(WINDOW[0])]


def named(kind: Kind) -> str:
    return f"{kind}_duplicates" if kind is EVERY_KIND[-1] else str(kind)


@pytest.mark.parametrize("spills", [False, True], ids=["whole", "spilled"])
@pytest.mark.parametrize("kind", EVERY_KIND, ids=named)
def test_wherever_the_log_was_cut_the_next_goes_on_exactly(
    tmp_path: Path, kind: Kind, spills: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain of takeovers by new directories, each killed with a part of what it sent."""
    monkeypatch.setattr(segment, "_CHUNK_BYTES", 300)
    monkeypatch.setattr(restore_log, "BATCH_BYTES", 500)
    given = some_input(7, 60)
    wanted = undisturbed(kind, given)
    chosen = random.Random(f"{named(kind)} {spills}")
    limit = {"uncommitted_max_bytes": 60} if spills else {}
    for chain in range(4):
        monkeypatch.setattr(whole, "BUFFERED_BYTES", [10**6, 0][chain % 2])
        place, promised, begun = tmp_path / f"{chain}-0", -1, 0
        for life in range(1, 4):
            ends: list[tuple[int, int]] = []
            with (
                open_log(place) as log,
                open_state("new", engine="memory", changelog=log, **limit) as state,
            ):
                state.open(spec_of(kind))
                ends.append((state.offsets().get(("in", 0), -1), size_of(place)))
                assert ends[0][0] >= promised
                store = run(
                    kind,
                    state,
                    given,
                    every=chosen.choice([1, 4, 9]),
                    committed=lambda offset, ends=ends, at=place: ends.append(
                        (offset, size_of(at))
                    ),
                )
                assert contents(kind, store) == wanted
            size = chosen.randrange(begun, size_of(place) + 1)
            promised = max(promised, last_returned(ends, size))
            place, begun = cut_copy(place, tmp_path / f"{chain}-{life}", size), size


@pytest.mark.parametrize("kind", [KINDS[2], KINDS[3], WINDOW[4], KINDS[-1]], ids=str)
@pytest.mark.parametrize("size", [1, 200, 10**6])
def test_a_restore_that_ends_behind_any_of_its_commits_goes_on(
    tmp_path: Path, kind: Kind, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right behind it: the next one finds the offsets, though there may be no more rows."""
    monkeypatch.setattr(segment, "_CHUNK_BYTES", 300)
    for name in ("BATCH_BYTES", "PUT_BYTES"):
        monkeypatch.setattr(restore_log, name, size)
    monkeypatch.setattr(restore_parts, "RECORD_BYTES", 0)
    given = some_input(13, 30)
    with open_log(tmp_path) as log:
        with open_state("a", engine="memory", changelog=log) as state:
            run(kind, state, given, every=7)
        wanted = undisturbed(kind, given)
        commit = StoreCommits.commit_restored
        lives = 0
        home = Home(tmp_path, "memory")

        def killed(*arguments: Any) -> None:
            commit(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(StoreCommits, "commit_restored", killed)
        while True:
            lives += 1
            state = home.open()
            try:
                offsets = state.restore(spec_of(kind), log).offsets
                break
            except KeyboardInterrupt:
                state.close()
        assert lives > 1
        assert offsets == {("in", 0): 29}
        assert state.offsets() == {("in", 0): 29, (TOPIC, 0): log.high_watermark - 1}
        assert contents(kind, state.open(spec_of(kind))) == wanted
        state.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [KINDS[1], *LAYERED[1:]], ids=str)
def test_a_standby_that_follows_takes_over(tmp_path: Path, kind: Kind, engine: str) -> None:
    """It reads the log now and then, within commits that are being sent, and then writes to it."""
    given = some_input(3, 48)
    chosen = random.Random(f"{kind} {engine}")
    place = tmp_path / "active"
    ends = []
    with open_log(place) as log, open_state("a", engine="memory", changelog=log) as state:
        run(
            kind,
            state,
            given,
            every=8,
            until=40,
            committed=lambda offset: ends.append((offset, size_of(place))),
        )
    home = Home(tmp_path / "standby", engine)
    sizes = sorted(chosen.sample(range(size_of(place)), 6))
    for number, size in enumerate(sizes):
        seen = cut_copy(place, tmp_path / f"{number}", size)
        with home.open() as standby, open_log(seen, read_only=True) as log:
            done = standby.restore(spec_of(kind), log)
            reached = last_returned(ends, size)
            assert (done.offsets or {("in", 0): -1}) == {("in", 0): reached}
            assert standby.offsets().get(("in", 0), -1) == reached
            assert standby.restore(spec_of(kind), log).offsets == done.offsets
            if reached >= 0:
                assert standby.open(spec_of(kind)).position == {"in": {0: reached}}
    with open_log(seen) as log, home.open(changelog=log) as state:
        assert contents(kind, run(kind, state, given, every=5)) == undisturbed(kind, given)


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
@pytest.mark.parametrize("number", range(len(killed.KINDS)), ids=lambda n: str(killed.KINDS[n]))
def test_killed_and_taken_over_again_and_again(tmp_path: Path, engine: str, number: int) -> None:
    """By the same directory, or by a new one that is restored; SIGKILL comes at any moment."""
    kind = killed.KINDS[number]
    chosen = random.Random(f"{engine} {number}")
    told = [-1]
    for life in range(4):
        place = tmp_path / f"home-{life // 2 if life < 3 else life}"
        place.mkdir(exist_ok=True)
        with killed.started(count_in, tmp_path, engine, number) as (process, tells):
            told.append(next(tells, told[-1]))
            if told[-1] == told[-2]:  # The process before was killed after its last commit.
                process.join(60)
                assert process.exitcode == 0
            time.sleep(chosen.random() * 0.05)
            process.kill()
            told.extend(tells)
    home = tmp_path / "home-9"
    given = some_input(number, 400)
    with open_log(tmp_path) as log, open_state(home, engine=engine, changelog=log) as state:
        state.open(spec_of(kind))
        assert state.offsets()["in", 0] >= told[-1]
        assert contents(kind, run(kind, state, given, every=50)) == undisturbed(kind, given)


def test_two_stores_of_one_task_go_on_each_where_it_is(tmp_path: Path) -> None:
    """Killed between the logs of one commit: each store asks its own offsets."""
    specs = [stores.key_value("a"), stores.key_value("b")]
    given = [b"%d" % (at % 3) for at in range(30)]

    def work(root: Path, place: Path, until: int) -> list[dict[bytes, bytes]]:
        with open_state(place / "0_0", engine="memory", changelog=root) as state:
            opened = [state.open(spec) for spec in specs]
            done = [store.offsets().get(("in", 0), -1) for store in opened]
            for offset in range(min(done) + 1, until):
                for store, contained in zip(opened, done, strict=True):
                    if offset > contained:
                        store.put(given[offset], b"%d" % (int(store.get(given[offset]) or 0) + 1))
                if offset % 4 == 3:
                    state.commit({("in", 0): offset})
            state.commit({("in", 0): until - 1})
            return [dict(store.all()) for store in opened]

    wanted = work(tmp_path / "whole", tmp_path / "app", 30)
    work(tmp_path / "logs", tmp_path / "app", 12)
    ahead = tmp_path / "ahead"
    shutil.copytree(tmp_path / "logs", ahead)
    work(ahead, tmp_path / "app", 20)
    shutil.rmtree(ahead / "app-b-changelog-0")
    shutil.copytree(tmp_path / "logs" / "app-b-changelog-0", ahead / "app-b-changelog-0")
    assert work(ahead, tmp_path / "app", 30) == wanted


@pytest.mark.parametrize("cleaner", ["ours", "kafka"])
@pytest.mark.parametrize("kind", [KINDS[2], KINDS[3], WINDOW[2], KINDS[-4]], ids=str)
def test_compaction_keeps_the_offsets_beside_their_rows(
    tmp_path: Path, kind: Kind, cleaner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the log that a killed writer left; Kafka's cleaner knows nothing of commits.

    Then what the rows are of may not be known any more, and is not claimed.
    """
    monkeypatch.setattr(segment, "_CHUNK_BYTES", 300)
    if cleaner == "kafka":
        monkeypatch.setattr(compaction, "_open_since", lambda _, active: active.base_offset)
    given = some_input(11, 80)
    wanted = undisturbed(kind, given)
    chosen = random.Random(str(kind))
    known = 0
    for chain in range(8):
        place, ends = tmp_path / f"{chain}", []
        with (
            open_log(place, segment_bytes=900) as log,
            open_state("a", engine="memory", changelog=log) as state,
        ):
            run(
                kind,
                state,
                given,
                every=7,
                until=50,
                committed=lambda offset, ends=ends, at=place: ends.append((offset, size_of(at))),
            )
        size = chosen.randrange(1500, size_of(place) + 1)
        place = cut_copy(place, tmp_path / f"{chain}-cut", size)
        gone = 0
        for _ in range(2):
            with open_log(place, segment_bytes=900) as log:
                log.roll()
                gone += log.compact().records
        assert gone
        with (
            open_log(place, segment_bytes=900) as log,
            open_state("b", engine="memory", changelog=log) as state,
        ):
            state.open(spec_of(kind))
            reached = state.offsets().get(("in", 0), -1)
            assert reached >= 0 or cleaner == "kafka"
            if reached >= 0:
                known += 1
                assert reached == last_returned(ends, size)
            if reached >= 0 and kind.shape != "versioned":  # whose log is compacted much later
                assert contents(kind, run(kind, state, given, every=9)) == wanted
    assert known >= 1


def test_a_log_without_marks_tells_no_offsets(tmp_path: Path) -> None:
    """That of Kafka Streams; or records of another writer behind the last commit."""
    spec = stores.key_value("s")
    with open_log(tmp_path) as log, open_state("a", engine="memory", changelog=log) as state:
        state.open(spec).put(b"a", b"1")
        state.commit()
        with open_state("standby", engine="memory") as standby:
            assert standby.restore(spec, log).offsets is None
            assert standby.offsets() == {(TOPIC, 0): 0}
        state.commit({("in", 0): 5})
        with open_state("standby", engine="memory") as standby:
            assert standby.restore(spec, log).offsets == {("in", 0): 5}
        log.append(b"b", b"2", 7)
        log.commit()
        with open_state("standby", engine="memory") as standby:
            done = standby.restore(spec, log)
            assert (done.records, done.offsets) == (2, None)
            assert standby.open(spec).get(b"b") == b"2"
            assert standby.offsets() == {(TOPIC, 0): 2}


def test_what_another_writer_wrote_behind_a_killed_commit_stays(tmp_path: Path) -> None:
    """Kafka Streams, which knows no marks, has restored all of the log before it went on."""
    spec = stores.key_value("s")
    with open_log(tmp_path) as log:
        records = RecordColumns()
        append_mark(records, Begin(2), 1)
        records.append(1, 1, b"a", b"killed")
        log.extend(records)
        log.append(b"b", b"2", 7)
        log.append(b"c", b"3", 7)
        log.commit()
        with open_state("standby", engine="memory") as standby:
            assert standby.restore(spec, log).offsets is None
            assert dict(standby.open(spec).all()) == {b"a": b"killed", b"b": b"2", b"c": b"3"}


def test_notes_and_stream_time_come_with_a_takeover(tmp_path: Path) -> None:
    spec = stores.window("s", 1000, 10)
    with open_log(tmp_path) as log:
        with open_state("a", engine="memory", changelog=log) as state:
            state.open(spec).put(b"a", b"1", window_start=5)
            state.advance(77)
            state.commit({("in", 0): 5, ("on", 3): None, ("on", 4): -4}, notes={"epoch": b"\xff"})
            state.commit({("in", 1): 6}, notes={"epoch": None, "other": b""})
        with open_state("b", engine="memory", changelog=log) as state:
            store = state.open(spec)
            assert store.stream_time == 77
            assert state.notes("s") == {"other": b""}
            assert state.offsets() == {("in", 0): 5, ("in", 1): 6, (TOPIC, 0): 3}


@pytest.mark.parametrize("said", [b"", b"X", b"B123", b"C{", b"C[]", b'C{"offsets":3}'])
def test_a_mark_that_cannot_be_read_is_an_error(tmp_path: Path, said: bytes) -> None:
    with pytest.raises(
        FormatError, match=r"a commit marker in the changelog .*(cannot be decoded|upgrade kstore)"
    ):
        parse(said)
    with FileChangelog(tmp_path, TOPIC) as log, open_state("a", engine="memory") as state:
        log.append(MARK_KEY, None, 1, [("kstore.commit", said)])
        log.commit()
        with pytest.raises(FormatError, match="a commit marker"):
            state.restore(stores.key_value("s"), log)


def test_marks_are_read_back() -> None:
    records = RecordColumns()
    marks = [
        Begin(3),
        Begin(0, 2**40),
        Commit(),
        Commit({("ö", 1): 2**62}, {"t": {0: 1, 2: 3}}, -1, {"n": b"\0\xff"}),
    ]
    for mark in marks:
        append_mark(records, mark, 1)
    records.append(len(marks), 1, MARK_KEY, b"a value", [("kstore.commit", b"B")])
    found = [(index, parse(said)) for index, said in whole.marks_in(records)]
    assert found == list(enumerate(marks))
    assert [record.value for record in without_marks(records)] == [b"a value"]
