"""A directory of Kafka Streams goes to another engine, or back to an older format, and on there.

Beside it lies one in which Kafka Streams alone did the same.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kstore_core.errors import FormatDowngradeError
from kstore_core.maintenance.migrate import migrate
from kstore_core.state.migration_note import places
from tests.interop.directories import STATE, differing, sit
from tests.interop.harness import Harness
from tests.interop.kinds import KINDS, NAME, Kind
from tests.interop.lives import first_segment, reads, scans, wake, writes
from tests.interop.sides import Kafka, data_rows

FORMS = ["plain", "timestamped", "headers"]
BACK = [
    (newer, older)
    for newer in KINDS
    for older in KINDS
    if (newer.shape, newer.options, newer.kstore_only)
    == (older.shape, older.options, older.kstore_only)
    and newer.form == "headers"
    and older.form in FORMS[:2]
    and not newer.duplicates
    and older.spec.format.name in newer.spec.format.upgrades
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kafka_goes_on_with_a_store_that_was_elsewhere(
    kafka: Harness, tmp_path: Path, kind: Kind
) -> None:
    side = Kafka(kafka)
    for name in ("alone", "passed"):
        sit(side, kind, tmp_path / name, [*writes(kind, 0), {"op": "commit", "offset": 3}])
    moved = tmp_path / "passed"
    migrate(moved, NAME, engine="lmdb", spec=kind.spec, drop_old=True)
    migrate(moved, NAME, engine="rocksdb")
    assert places(moved).old.exists()
    operations = [STATE, *wake(kind, 1), *reads(kind), *writes(kind, 1), *reads(kind), STATE]
    alone = sit(side, kind, tmp_path / "alone", operations)
    passed = sit(side, kind, moved, operations)
    assert not differing(side, kind, operations, alone, passed)
    rows = partial(data_rows, kafka, kind, first_segment=first_segment(kind, 1))
    assert rows(moved) == rows(tmp_path / "alone")


@pytest.mark.parametrize(("newer", "older"), BACK, ids=str)
def test_kafka_opens_what_went_back_to_an_older_format(
    kafka: Harness, tmp_path: Path, newer: Kind, older: Kind
) -> None:
    side = Kafka(kafka)
    sit(side, newer, tmp_path, writes(newer, 0))
    before = sit(side, newer, tmp_path, [*wake(newer, 0), *scans(newer)])
    with pytest.raises(FormatDowngradeError):
        migrate(tmp_path, NAME, to=older.spec.format, spec=newer.spec)
    migrate(tmp_path, NAME, to=older.spec.format, spec=newer.spec, lossy=True)
    after = sit(side, older, tmp_path, [*wake(older, 0), *scans(older)])
    assert [values(result) for result in after] == [values(result) for result in before]


def values(result: object) -> object:
    """What a result says of keys and values, whatever was stored with them."""
    if isinstance(result, dict):
        kept = {n: values(part) for n, part in result.items() if n not in ("timestamp", "headers")}
        return kept.get("value") if kept.keys() <= {"value"} else kept
    return [values(part) for part in result] if isinstance(result, list) else result
