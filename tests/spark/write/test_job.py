"""A write without Spark: whatever goes wrong at whatever call, a version is there whole or not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kstore_core.errors import (
    CommitConflictError,
    CorruptionError,
    KStoreError,
    SpecError,
    StateError,
    StorageFullError,
    StorageUnavailableError,
)
from kstore_core.spark import vacuum
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.shards.writing import failure, read_message
from tests.spark.support.faults import FaultyStorage, Killed, begun, files_below, referred, write
from tests.spark.support.logs import (
    SHARDS,
    SPEC,
    Model,
    Record,
    Version,
    log_table,
    visible,
)
from tests.spark.write.contents import LOG, contents

HALF = 40


def model(records: list[Record]) -> list[Version]:
    return visible(Model(SHARDS, SPEC.history_retention_ms or 0).put(records))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one version."""
    path = tmp_path_factory.mktemp("first") / "root"
    write(Root.at(path), LOG[:HALF])
    return path


@pytest.fixture(scope="module")
def calls(first: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The calls that an append makes."""
    path = tmp_path_factory.mktemp("calls") / "root"
    shutil.copytree(first, path)
    storage = FaultyStorage(LocalFiles(path))
    write(Root(storage), one_shard())
    return storage.calls


def one_shard() -> list[Record]:
    """New records of one shard: the others stay as they are."""
    return [record for record in LOG[HALF:] if record.partition == 0]


def test_an_append_is_what_both_logs_make(root: Path) -> None:
    home = Root.at(root)
    write(home, LOG[:HALF])
    after = write(home, LOG[HALF:])
    assert contents(home) == model(LOG)
    assert contents(home, 1) == model(LOG[:HALF])
    assert files_below(root) == referred(home)
    assert after.version == 2


def test_a_shard_without_new_records_is_the_same_files(first: Path, root: Path) -> None:
    shutil.copytree(first, root)
    home = Root.at(root)
    before, after = home.load(), write(home, one_shard())
    for old, new in zip(before.shards, after.shards, strict=True):
        assert (old == new) == (old.shard != 0)
    assert after.shards[0].path != before.shards[0].path


def test_records_that_are_there_already_send_nothing(first: Path, root: Path) -> None:
    shutil.copytree(first, root)
    home = Root.at(root)
    before, after = home.load(), write(home, LOG[:HALF])
    assert [shard.files for shard in after.shards] == [shard.files for shard in before.shards]
    assert sum(shard.replayed for shard in after.shards) == HALF
    assert files_below(root) == referred(home)


def test_tables_that_nobody_wrote_to_are_links(first: Path, root: Path) -> None:
    """On a local root an append takes the room of what is new."""
    shutil.copytree(first, root)
    home = Root.at(root)
    before, after = home.load(), write(home, one_shard())
    old = {file.path: file for file in before.shards[0].files if file.path.endswith(".sst")}
    kept = [file for file in after.shards[0].files if file.path in old]
    assert kept
    for file in kept:
        mine, theirs = (
            root / shard.place_of(file) for shard in (after.shards[0], before.shards[0])
        )
        assert mine.samefile(theirs)


def test_there_are_calls_of_all_kinds_to_fail(calls: list[str]) -> None:
    assert {"names", "read", "put_new", "download", "upload", "settle", "delete"} <= {*calls}


@pytest.mark.parametrize("how", ["fails", "loses", "dies", "dies after"])
def test_whatever_call_goes_wrong_the_store_is_old_or_new(
    first: Path, tmp_path: Path, calls: list[str], how: str
) -> None:
    old, new = model(LOG[:HALF]), model([*LOG[:HALF], *one_shard()])
    seen, publishing = set(), max(at for at, call in enumerate(calls) if call == "put_new")
    for at in range(len(calls)):
        path = tmp_path / str(at)
        shutil.copytree(first, path, copy_function=lambda a, b: Path(b).hardlink_to(a))
        storage = FaultyStorage(LocalFiles(path), at, how)
        try:
            write(Root(storage), one_shard())
            raised = False
        except (OSError, KStoreError, Killed):
            raised = True
        home = Root.at(path)
        version = home.load().version
        seen.add((version, raised))
        where = f"call {at}, {calls[at]}"
        assert raised or version == 2, where
        assert files_below(path) >= referred(home), where
        if at % 5 == 0 or calls[at] == "put_new":
            assert contents(home) == (old if version == 1 else new), where
        vacuum(path, grace_s=0)
        assert files_below(path) == referred(home), where
        if how == "loses" and at == publishing:
            assert not raised, "it was asked again, and found its own manifest"
    assert {version for version, _ in seen} == {1, 2}
    if how == "fails":
        assert (2, True) not in seen  # what is published is not said to have failed


def test_what_may_have_been_published_is_not_cleared_away(
    first: Path, root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest arrived; its answer did not, and neither does that to the question for it."""
    shutil.copytree(first, root)
    publishing = max(at for at, call in enumerate(calls) if call == "put_new")
    storage = FaultyStorage(LocalFiles(root), publishing, "loses")

    def unanswered(*_: object) -> bool:
        raise OSError("no answer either")

    monkeypatch.setattr(Root, "_is", unanswered)
    with pytest.raises(OSError, match="no answer either"):
        write(Root(storage), one_shard())
    home = Root.at(root)
    assert home.load().version == 2
    assert contents(home) == model([*LOG[:HALF], *one_shard()])


def test_of_two_writers_one_publishes_and_the_other_leaves_nothing(first: Path, root: Path) -> None:
    shutil.copytree(first, root)
    home = Root.at(root)
    one, two = begun(home), begun(home)
    rows = log_table(one_shard()).to_batches()
    shards = [job.writer().write(0, 1, rows)[0] for job in (one, two)]
    won = two.publish(shards[1:])
    with pytest.raises(CommitConflictError, match=r"2\.json was published by another writer"):
        one.publish(shards[:1])
    assert home.load() == won
    assert files_below(root) == referred(home)


def test_two_attempts_at_a_shard_do_not_meet(first: Path, root: Path) -> None:
    """The second is one that Spark began because the first took long; both are whole."""
    shutil.copytree(first, root)
    home = Root.at(root)
    job = begun(home)
    rows = log_table(one_shard()).to_batches()
    writer = job.writer()
    [slow], [fast] = writer.write(0, 1, rows), writer.write(0, 2, rows)
    assert slow.path != fast.path
    manifest = job.publish([fast])
    assert manifest.shards[0] == fast
    assert files_below(root) == referred(home)
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        writer.write(0, 3, rows)
    assert files_below(root) == referred(home)


def test_a_shard_of_two_tasks_is_refused(first: Path, root: Path) -> None:
    shutil.copytree(first, root)
    home = Root.at(root)
    job = begun(home)
    writer = job.writer()
    halves = [log_table(one_shard()[:2]), log_table(one_shard()[2:])]
    shards = [writer.write(0, attempt, rows.to_batches())[0] for attempt, rows in enumerate(halves)]
    with pytest.raises(SpecError, match=r"two tasks have records of shard 0.*by_shard"):
        job.publish(shards)
    job.discard()
    assert files_below(root) == referred(home)
    assert home.versions() == [1]


def test_what_a_vacuum_took_is_not_published(first: Path, root: Path) -> None:
    shutil.copytree(first, root)
    home = Root.at(root)
    job = begun(home)
    [shard] = job.writer().write(0, 1, log_table(one_shard()).to_batches())
    vacuum(root, grace_s=0)
    with pytest.raises(StateError, match=r"uploads were removed.*grace_s"):
        job.publish([shard])
    assert home.versions() == [1]
    assert files_below(root) == referred(home)


def test_a_job_that_was_closed_is_left_to_the_vacuum(first: Path, root: Path) -> None:
    """It may have been published, though the answer was lost: nobody clears it away at once."""
    shutil.copytree(first, root)
    home = Root.at(root)
    job = begun(home)
    [shard] = job.writer().write(0, 1, log_table(one_shard()).to_batches())
    home.close(job.job)
    job.discard()
    assert (root / str(shard.path)).is_dir()
    assert vacuum(root, grace_s=0).bytes == shard.bytes
    assert files_below(root) == referred(home)


@pytest.mark.parametrize("value", [0, -1, True, 2.0])
def test_partitions_are_a_number_from_one_on(root: Path, value: object) -> None:
    from kstore_core.spark.write.job import WriteJob

    with pytest.raises(SpecError, match="is not a valid number of partitions of a store"):
        WriteJob.plan(
            Root.at(root),
            SPEC,
            None,
            engine="rocksdb",
            partitions=value,
            mode="append",  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StorageFullError("no space left"), StorageFullError),
        (CorruptionError("is missing"), CorruptionError),
        (OverflowError("too much"), SpecError),
    ],
)
def test_what_no_other_attempt_would_mend_is_told_to_the_driver(
    error: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=f"shard 3: {error}"):
        read_message(json.dumps(failure(error, 3)))


@pytest.mark.parametrize("error", [StorageUnavailableError("no answer"), OSError("interrupted")])
def test_what_another_attempt_may_mend_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        failure(error, 3)


def test_a_task_that_publishes_may_run_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = Root.at(root)
    job = begun(at)
    manifest = job.manifest([])
    monkeypatch.setattr("kstore_core.spark.write.job.is_retry", lambda: True)
    job.publish_manifest(manifest)  # the first attempt died before it did anything
    job.publish_manifest(manifest)  # the first attempt died after it had published
    assert at.versions() == [1]
    later = begun(at)
    at.close(later.job)  # the first attempt died, or still runs, between two steps
    with pytest.raises(StateError, match=r"version 2 .* may or may not be published"):
        later.publish_manifest(later.manifest([]))
    assert at.versions() == [1]
    other = begun(at)
    at.close(later.job)
    other.publish_manifest(other.manifest([]))
    with pytest.raises(StateError, match="may or may not"):
        later.publish_manifest(later.manifest([]))
