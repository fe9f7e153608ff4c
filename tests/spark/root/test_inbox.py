"""The inbox of an epoch, on a disk and on files that are taken for an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstore_core.errors import CorruptionError, StateError
from kstore_core.spark.root.inbox import INBOX, Inbox, InboxFile, abandoned
from kstore_core.spark.root.storage.base import Entry
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.support.faults import FaultyObjects

QUERY = "5f0c9a4e-7"


@pytest.fixture(params=["disk", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    files = LocalFiles(tmp_path / "root")
    return files if request.param == "disk" else FaultyObjects(files)


def written(inbox: Inbox, task: int, *values: int) -> InboxFile:
    batches = iter([pa.RecordBatch.from_pydict({"v": [value]}) for value in values])
    file = inbox.write(task, batches)
    assert file is not None
    return file


def test_rows_come_in_the_order_of_tasks(storage: Any, tmp_path: Path) -> None:
    inbox = Inbox(storage, QUERY, 3)
    files = [written(inbox, 11, 4), written(inbox, 2, 2, 3), written(inbox, 0, 1)]
    killed = written(inbox, 2, 9)
    assert inbox.write(5, iter(())) is None
    rows = inbox.read(files)
    assert rows is not None
    for name in inbox.names():
        (tmp_path / "root" / name).unlink()
    assert rows["v"].to_pylist() == [1, 2, 3, 4]  # though the files are gone
    assert inbox.read([]) is None
    assert killed.name.startswith(f"live/inbox/{QUERY}-3/000002-")
    assert (killed.sha256 is None) == (storage.path is not None)


def test_files_of_this_epoch_and_earlier_ones_are_removed(storage: Any, tmp_path: Path) -> None:
    earlier, inbox, later = (Inbox(storage, QUERY, epoch) for epoch in (9, 10, 11))
    gone = {written(each, 0, 1).name for each in (earlier, inbox)}
    kept = {written(later, 0, 1).name, written(Inbox(storage, f"{QUERY}-1", 0), 0, 1).name}
    assert {*inbox.names()} == gone
    inbox.remove(inbox.names())
    inbox.remove(gone)
    assert {entry.name for entry in storage.files(INBOX)} == kept
    assert not (tmp_path / "root" / inbox.place).exists()


def test_files_that_cannot_be_removed_wait_for_the_next_epoch(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    name = written(Inbox(files, QUERY, 0), 0, 1).name
    Inbox(FaultyObjects(files, 0), QUERY, 0).remove([name])
    assert Inbox(files, QUERY, 1).names() == [name]


def test_a_missing_file_is_told(storage: Any) -> None:
    inbox = Inbox(storage, QUERY, 3)
    file = written(inbox, 0, 1)
    inbox.remove([file.name])
    with pytest.raises(StateError, match=r"-7-3 lacks a file .* epoch 3 .* Restart the query"):
        inbox.read([file])


def test_a_changed_file_is_told(tmp_path: Path) -> None:
    storage: Any = FaultyObjects(LocalFiles(tmp_path))
    inbox = Inbox(storage, QUERY, 3)
    file = written(inbox, 0, 1)
    (tmp_path / file.name).write_bytes(b"other")
    with pytest.raises(CorruptionError, match=r"\.arrow differs from .* SHA-256 .* Restart"):
        inbox.read([file])


def test_an_inbox_is_abandoned_when_no_task_writes_to_it() -> None:
    def at(name: str, time: int) -> Entry:
        return Entry(name, 1, time)

    old = [at(f"{INBOX}/a-1/{task:06}-{'0' * 32}.arrow", 5 + task) for task in range(2)]
    running = [at(f"{INBOX}/a-2/{task:06}-{'0' * 32}.arrow", 9 * task) for task in range(2)]
    others = [at(f"{INBOX}/0_0/changes/{1:020}-a.arrow", 1), at(f"{INBOX}/a-1/notes.txt", 1)]
    assert abandoned([*running, *others, *old], 9) == old
    assert abandoned(old, 6) == []
