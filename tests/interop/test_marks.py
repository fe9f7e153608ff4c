"""The marks of commits in a changelog, restored by Kafka Streams: as if they were not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.changelog import FileChangelog
from kstore_core.changelog.marks import MARK_KEY
from kstore_core.codec import LogRecord
from tests.interop.harness import Harness
from tests.interop.kinds import KINDS, NAME, Kind
from tests.interop.lives import reads, writes
from tests.interop.sides import CHANGELOG, Kafka, KStore, data_rows


def logged(kind: Kind, root: Path) -> list[LogRecord]:
    """What kstore logs of a store's life, with the offsets of its input."""
    run = KStore()._run
    with (
        FileChangelog(root, CHANGELOG[0]) as log,
        open_state("logged", engine="memory", changelog=log) as state,
    ):
        store = state.open(kind.spec)
        for operation in writes(kind, 0):
            if operation["op"] == "commit":
                state.commit({("in", 0): operation["offset"]})
            else:
                run(state, store, operation)
        state.commit({("in", 0): 10**6})
        return [record for records in log.read() for record in records]


def restored(
    kafka: Harness, kind: Kind, directory: Path, records: list[LogRecord]
) -> tuple[Any, Any]:
    """What Kafka Streams reads of a store that it restored, and all rows that it has then."""
    given = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [
                [key, None if value is None else value.hex()] for key, value in record.headers
            ],
        }
        for record in records
        if record.key is not None
    ]
    with Kafka(kafka).open(kind, directory) as run:
        for batch in (given[: len(given) // 2], given[len(given) // 2 :]):
            run({"op": "restore", "records": batch})
        answers = [run(operation) for operation in reads(kind)]
        run({"op": "commit"})
    return answers, data_rows(kafka, kind, directory)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kafka_restores_what_it_would_without_them(
    kafka: Harness, tmp_path: Path, kind: Kind
) -> None:
    records = logged(kind, tmp_path / "logs")
    rows = [record for record in records if record.key != MARK_KEY]
    assert len(records) - len(rows) >= 3
    marked = restored(kafka, kind, tmp_path / "marked", records)
    assert marked == restored(kafka, kind, tmp_path / "bare", rows)
    assert MARK_KEY.hex() not in str(marked)
    assert b"kstore.commit".hex() not in str(marked)


def test_the_store_is_at_the_last_mark(kafka: Harness, tmp_path: Path) -> None:
    """The offset behind which the next one, of either program, goes on."""
    kind = KINDS[2]
    records = logged(kind, tmp_path / "logs")
    restored(kafka, kind, tmp_path / "0_0", records)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        assert state.offsets(NAME) == {CHANGELOG: records[-1].offset}
