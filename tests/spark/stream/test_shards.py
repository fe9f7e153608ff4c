"""What tasks do with an epoch: once, whatever is done again, and whatever dies in between."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kstore_core import open_state, serdes, stores
from kstore_core.changelog.marks import MARK_KEY
from kstore_core.errors import SpecError, StateError
from kstore_core.spark.live.epochs import last_epoch
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.live.lock import StreamLock, locked
from kstore_core.spark.live.stream_binding import check_not_streamed
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.stream.publishing import job_of
from kstore_core.spark.stream.shards import EpochTask
from tests.spark.stream.shard_epochs import (
    STEPS,
    Servant,
    Streamed,
    content,
    in_windows,
    killed_commit,
    killed_epoch,
    restored,
    rows_of,
    shards_are,
)
from tests.spark.support.logs import SHARDS, SPEC, Record, make_log
from tests.spark.support.streams import slices_of

LATEST = stores.timestamped_key_value_with_headers("latest")
PLAIN = stores.key_value("plain")
WINDOWS = stores.timestamped_window_with_headers("windows", 300, 20, segment_interval_ms=60)


def log_of(spec: Any, seed: int, count: int, **options: Any) -> list[Record]:
    """A log of a store."""
    log = make_log(seed, count, SHARDS, **options)
    return in_windows(log, spec.window_size_ms) if spec.shape == "window" else log


@pytest.fixture(scope="module")
def servant() -> Iterator[Servant]:
    """Who does what is to be killed."""
    servant = Servant()
    yield servant
    servant.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "engine"),
    [(SPEC, "rocksdb"), (SPEC, "lmdb"), (LATEST, "rocksdb"), (WINDOWS, "rocksdb")],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_whatever_is_killed_the_epoch_is_there_once(
    tmp_path: Path, servant: Servant, spec: Any, engine: str
) -> None:
    log = log_of(spec, 3, 240)
    slices = slices_of(log, len(STEPS))
    streamed = Streamed(tmp_path / "root", spec, engine)
    whole = Streamed(tmp_path / "whole", spec, engine)
    for epoch, (name, records) in enumerate(zip(STEPS, slices, strict=True)):
        assert servant(killed_epoch, streamed, epoch, records, name) == -9
        shown = Root.at(streamed.path).versions()
        assert shown == [*range(1, epoch + 1 + (name == "published"))]  # no half of an epoch
        again = streamed.epoch(epoch, records)
        assert again == whole.epoch(epoch, records)
        assert Root.at(streamed.path).versions() == [*range(1, epoch + 2)]
    assert shards_are(streamed, log)
    for number in range(1, len(STEPS) + 1):  # versions do not change when their shards do
        assert Root.at(streamed.path).load(number).records == sum(map(len, slices[:number]))


def test_a_commit_of_many_databases_is_finished_by_the_next_attempt(
    tmp_path: Path, servant: Servant
) -> None:
    log = [
        dataclasses.replace(record, partition=0, offset=number)
        for number, record in enumerate(log_of(WINDOWS, 4, 120))
    ]
    slices = slices_of(log, 4)
    streamed = Streamed(tmp_path / "root", WINDOWS, partitions=1)
    whole = Streamed(tmp_path / "whole", WINDOWS, partitions=1)
    cut_short = 0
    for epoch, records in enumerate(slices):
        output = whole.epoch(epoch, records)
        lives = [LiveLayout.of(one.path).shard(0) for one in (streamed, whole)]
        for databases in (1, 2):
            ended = servant(killed_commit, streamed, epoch, records, databases)
            assert ended in (-9, 0)  # where there were fewer to write
            with open_state(lives[0], read_only=True) as state:
                contained = last_epoch(state, streamed.query) == epoch
            if contained:  # the ledger is never ahead of the rows
                assert content(lives[0], WINDOWS, "rocksdb") == content(
                    lives[1], WINDOWS, "rocksdb"
                )
            cut_short += not contained
        assert streamed.epoch(epoch, records) == output
    assert cut_short > 2
    assert shards_are(streamed, log)


class StoppedError(Exception):
    """Ends an epoch between two steps."""


@pytest.mark.slow
@settings(deadline=None, max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.data())
def test_epochs_are_one_restore_however_they_are_cut_and_repeated(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    scratch = tmp_path_factory.mktemp("epochs")
    spec = data.draw(st.sampled_from([SPEC, LATEST, PLAIN, WINDOWS]))
    log = log_of(spec, data.draw(st.integers(0, 99)), 120, disorder=120)
    engine = data.draw(st.sampled_from(["lmdb", "lmdb", "rocksdb"]))
    every = data.draw(st.integers(1, 3))
    streamed = Streamed(scratch / "root", spec, engine, publish_every=every)
    slices = slices_of(log, data.draw(st.integers(1, 5)))
    versions = None
    for epoch, records in enumerate(slices):
        for _ in range(data.draw(st.integers(0, 2))):
            name = data.draw(st.sampled_from(STEPS))
            left = data.draw(st.integers(0, 2))

            def stop(told: str, shard: int | None, name: str = name) -> None:
                nonlocal left
                left -= told == name
                if left < 0:
                    raise StoppedError

            with contextlib.suppress(StoppedError):
                streamed.epoch(epoch, records, step=stop)
            versions = None  # whoever goes on knows what is on disk
        first = streamed.epoch(epoch, records, versions=versions)
        assert first == streamed.epoch(epoch, records)
        versions = data.draw(st.sampled_from([None, streamed.versions()]))
    for extra in range(len(slices), len(slices) + every):  # until a version is due
        streamed.epoch(extra, [])
    assert shards_are(streamed, log)
    shutil.rmtree(scratch)


def test_the_output_is_the_state_after_the_epoch(tmp_path: Path) -> None:
    streamed = Streamed(tmp_path / "root", LATEST, partitions=1)
    one = [Record(b"a", b"1", 5, (("n", b"x"),)), Record(b"b", b"2", 6), Record(b"c", b"3", 7)]
    two = [Record(b"a", None, 8, offset=4), Record(b"b", b"5", 2, offset=5)]
    one = [Record(**{**vars(r), "offset": n}) for n, r in enumerate(one)]
    streamed.epoch(0, one)
    [output] = streamed.epoch(1, two)
    assert output.column_names == ["key", "value", "timestamp", "headers", "partition"]
    rows = output.to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(b"a", None), (b"b", b"5")]
    assert rows[0]["timestamp"] is None
    assert rows[1]["timestamp"].timestamp() == 0.002
    assert streamed.epoch(1, two) == [output]


def test_a_copy_is_of_links_and_hashes_only_what_is_new(tmp_path: Path) -> None:
    log = make_log(5, 4000, 1, keys=2000)
    streamed = Streamed(tmp_path / "root", SPEC, partitions=1)
    versions = streamed.versions()
    for epoch, records in enumerate(slices_of(log, 2)):
        streamed.epoch(epoch, records, versions=versions)
    root = Root.at(streamed.path)
    first, second = root.load(1).shards[0], root.load(2).shards[0]
    known = {file.path: file for file in first.files}
    kept = [file for file in second.files if file.path.endswith(".sst") and file.path in known]
    assert kept
    assert first.path is not None
    assert second.path is not None
    for file in kept:
        assert known[file.path] == file
        here = root.path / second.path / file.path
        assert here.samefile(root.path / first.path / file.path)


@pytest.mark.parametrize("step", ["opened", "committed", "copied", "reported"])
def test_a_version_that_was_discarded_is_not_shown_and_not_forgotten(
    tmp_path: Path, step: str
) -> None:
    log = make_log(7, 90, SHARDS)
    first, second = slices_of(log, 2)
    streamed = Streamed(tmp_path / "root", LATEST, "lmdb")

    def discard(told: str, shard: int | None) -> None:
        if told == step:
            streamed.root.discard(job_of(streamed.root, streamed.query, 0))

    with pytest.raises(StateError, match="its uploads were removed"):
        streamed.epoch(0, first, step=discard)
    assert Root.at(streamed.path).versions() == []
    assert not list((streamed.path / "attempts").glob("*"))
    versions = streamed.versions()
    streamed.epoch(0, first, versions=versions)
    streamed.epoch(1, second, versions=versions)
    assert shards_are(streamed, log)


def test_an_older_checkpoint_is_refused(tmp_path: Path) -> None:
    log = make_log(6, 60, SHARDS)
    streamed = Streamed(tmp_path / "root", LATEST, publish_every=10)
    for epoch, records in enumerate(slices_of(log, 3)):
        streamed.epoch(epoch, records)
    with pytest.raises(StateError, match=r"contains epoch 2 .* the checkpoint is older than"):
        streamed.epoch(1, slices_of(log, 3)[1])
    streamed.epoch(9, [])
    with pytest.raises(StateError, match=r"version 1 of .* contains epoch 9 .* is older than"):
        streamed.epoch(8, log)


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_live_shard_that_is_gone_is_told(tmp_path: Path, how: str) -> None:
    log = make_log(6, 60, SHARDS)
    streamed = Streamed(tmp_path / "root", LATEST)
    streamed.epoch(0, log[:30])
    shutil.rmtree(tmp_path / "root" / "live" / "0_1")
    if how == "emptied":
        (tmp_path / "root" / "live" / "0_1").mkdir()
    with pytest.raises(StateError, match=r"live state .*0_1 of a shard is missing.*new checkpoint"):
        streamed.epoch(1, log[30:])
    # What the message says to do: records that the version contains are left out.
    shutil.rmtree(tmp_path / "root" / "live")
    anew = Streamed(tmp_path / "root", LATEST, query="another")
    anew.epoch(0, log)
    newest = Root.at(anew.path).newest()
    assert newest is not None
    assert sum(shard.replayed for shard in newest.shards) == 30
    for shard in newest.shards:
        mine = tuple(record for record in log if record.partition == shard.shard)
        wanted = restored(LATEST, "rocksdb", mine)
        assert content(LiveLayout.of(anew.path).shard(shard.shard), LATEST, "rocksdb") == wanted


def test_records_that_do_not_fit_leave_the_shard_as_it_was(tmp_path: Path) -> None:
    texts = stores.key_value("texts", value=serdes.UTF8)
    streamed = Streamed(tmp_path / "root", texts, partitions=1)
    streamed.epoch(0, [Record(b"a", b"1", 5)])
    for fault, text in (
        (Record(b"a", b"\xff", 6, offset=1), "which the serde 'utf8' cannot read"),
        (Record(b"a", b"2", 6, partition=1, offset=1), "for example 1"),
    ):
        log = ShardLog.of(rows_of([fault]), texts)
        with pytest.raises(SpecError, match=text):
            EpochTask.of(streamed.versions(), 1, None).apply(0, log)
    streamed.epoch(1, [Record(b"a", b"2", 6, offset=1)])
    [shard] = Root.at(streamed.path).load().shards
    assert (shard.records, shard.offsets[0].offset) == (2, 1)


def test_a_streamed_root_takes_no_other_version(tmp_path: Path) -> None:
    layout = LiveLayout.of(tmp_path / "root")
    check_not_streamed(layout)
    Streamed(tmp_path / "root", LATEST).versions()
    with pytest.raises(StateError, match=r"belongs to the stream of the checkpoint"):
        check_not_streamed(layout)


def test_one_stream_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    layout = LiveLayout.of(tmp_path)
    with (
        locked(layout),
        pytest.raises(StateError, match=r"another stream writes to .* \(process \d+\)"),
    ):
        StreamLock(layout)
    StreamLock(layout).release()


def test_another_stream_is_refused(tmp_path: Path) -> None:
    Streamed(tmp_path, LATEST).versions()
    with pytest.raises(StateError, match=r"but this stream is .* of the checkpoint"):
        Streamed(tmp_path, LATEST, query="another").versions()
    with pytest.raises(SpecError, match="partitions is stored as 3 and given as 4"):
        Streamed(tmp_path, LATEST, partitions=4).versions()
    with pytest.raises(SpecError, match="engine is stored as 'rocksdb' and given as 'lmdb'"):
        Streamed(tmp_path, LATEST, "lmdb").versions()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 1}', '{"format": 9}', '{"format": "x"}']
)
def test_a_damaged_document_is_told(tmp_path: Path, text: str) -> None:
    Streamed(tmp_path, LATEST).versions()
    (tmp_path / "live" / "stream.json").write_text(text)
    with pytest.raises(StateError, match=r"stream\.json (is damaged|has the layout 9)"):
        Streamed(tmp_path, LATEST).versions()


@pytest.mark.parametrize("text", [False, True])
def test_the_marks_of_commits_are_no_records(text: bool) -> None:
    records = make_log(1, 20, 3)
    marks = [Record(MARK_KEY, None, 1, (("kstore.commit", b"B"),), offset=99)]
    wanted = ShardLog.of(rows_of(records), SPEC)
    rows = rows_of([*records, *marks])
    bare = rows_of(marks)
    if text:
        key = stores.versioned_key_value_with_headers("s", 9, key=serdes.UTF8)
        rows, bare = (
            each.set_column(each.column_names.index("key"), "key", each["key"].cast(pa.string()))
            for each in (rows, bare)
        )
        assert len(ShardLog.of(bare, key)) == 0
        assert len(ShardLog.of(rows, key)) == len(wanted)
    else:
        assert len(ShardLog.of(bare, SPEC)) == 0
        assert ShardLog.of(rows, SPEC).keys.equals(wanted.keys)
