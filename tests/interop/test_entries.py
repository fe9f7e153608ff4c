"""What each side keeps of a store beside its rows, and what the other makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from tests.interop.harness import Harness
from tests.interop.kinds import KINDS, NAME, Kind
from tests.interop.lives import NOW, commit, everything, reads, wake, writes
from tests.interop.sides import CHANGELOG, Kafka, KStore, Operation

OURS = {"kstore.spec", "kstore.stream-time"}
BY_NAME = {kind.name: kind for kind in KINDS}
WITH_TIME = [kind for kind in KINDS if kind.shape != "key_value"]


def entries(kafka: Harness, directory: Path) -> dict[str, dict[str, bytes]]:
    """The rows of the offsets family, by database."""
    found: dict[str, dict[str, bytes]] = {}
    for row in kafka.raw(directory, NAME):
        if row["cf"] == "offsets":
            name = bytes.fromhex(row["key"]).decode()
            found.setdefault(row["db"], {})[name] = bytes.fromhex(row["value"])
    return found


def ours(kafka: Harness, directory: Path) -> set[str]:
    """The names of kstore's entries that any database has."""
    return {name for held in entries(kafka, directory).values() for name in held} & OURS


def lived(side: Any, kind: Kind, directory: Path, operations: list[Operation], **how: Any) -> Any:
    with side.open(kind, directory, **how) as run:
        return [run(operation) for operation in operations]


@pytest.mark.parametrize("kind", WITH_TIME, ids=str)
def test_kstores_entries_outlive_what_kafka_commits(
    kafka: Harness, tmp_path: Path, kind: Kind
) -> None:
    lived(KStore(), kind, tmp_path, writes(kind, 0))
    assert ours(kafka, tmp_path) == OURS
    lived(Kafka(kafka), kind, tmp_path, [*wake(kind, 0), commit(70)])
    assert ours(kafka, tmp_path) == OURS
    with open_state(tmp_path) as state:  # the engine is known again, though the lock file is gone
        assert state.stored_spec(NAME).describes(kind.spec)
        assert state.open(kind.spec).stream_time == NOW[kind.shape]
        assert state.offsets() == {CHANGELOG: 70}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kstore_lives_without_the_entries_that_kafka_deletes(
    kafka: Harness, tmp_path: Path, kind: Kind
) -> None:
    """A store without a changelog: a commit of Kafka's leaves nothing but position and status."""
    asked = reads(kind)
    before = lived(KStore(), kind, tmp_path, [*writes(kind, 0), *asked])[-len(asked) :]
    lived(Kafka(kafka), kind, tmp_path, [{"op": "commit"}], changelog=None)
    assert not ours(kafka, tmp_path)
    with open_state(tmp_path) as state:
        assert state.stored_spec(NAME) is None
        assert state.offsets() == {}
        if kind.shape != "key_value":
            assert state.open(kind.spec).stream_time == -1
    # A wake brings stream time back; the row that it writes is there in both.
    lived(KStore(), kind, tmp_path, [*wake(kind, 0), commit(80)])
    after = lived(KStore(), kind, tmp_path, asked)
    mine = lived(KStore(), kind, tmp_path / "again", [*writes(kind, 0), *wake(kind, 0), *asked])
    assert after == mine[-len(asked) :]
    assert len(before) == len(after)
    assert ours(kafka, tmp_path) == (OURS if kind.shape != "key_value" else {"kstore.spec"})


@pytest.mark.parametrize(
    "name", ["window, headers", "session, plain", "window, plain, time-ordered"]
)
def test_stream_time_follows_what_kafka_wrote(kafka: Harness, tmp_path: Path, name: str) -> None:
    """Kafka does not store it: the newest segment's beginning is what can be known."""
    kind = BY_NAME[name]
    lived(KStore(), kind, tmp_path, writes(kind, 0))
    for part, known in (
        (1, NOW[kind.shape] + 100),
        (9, -1),  # what kstore wrote has expired, and Kafka alone remains
    ):
        lived(Kafka(kafka), kind, tmp_path, [*wake(kind, part), commit(70 + part)])
        with open_state(tmp_path, read_only=True) as state:
            assert state.open(kind.spec).stream_time == known


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_offset_that_kafka_does_not_know_is_not_known_here(
    kafka: Harness, tmp_path: Path, kind: Kind
) -> None:
    """Kafka writes -4 for it; whoever restores has to begin at the start."""
    written = [operation for operation in writes(kind, 0) if operation["op"] != "commit"]
    lived(Kafka(kafka), kind, tmp_path, [*written, {"op": "commit"}])
    stored = {held.get("interop-s-changelog-0") for held in entries(kafka, tmp_path).values()}
    assert stored == {(-4).to_bytes(8, "big", signed=True)}
    with open_state(tmp_path, read_only=True) as state:
        assert state.offsets() == {}
        assert state.offsets(NAME) == {}
        assert state.open(kind.spec).offsets() == {}
        assert state.offsets() == {}
    lived(KStore(), kind, tmp_path, [commit(5)])
    assert lived(Kafka(kafka), kind, tmp_path, [{"op": "state"}])[0]["offset"] == 5


@pytest.mark.parametrize("name", ["key-value, headers", "window, headers", "session, headers"])
def test_a_position_file_is_merged_and_kstore_reads_the_result(
    kafka: Harness, tmp_path: Path, name: str
) -> None:
    kind = BY_NAME[name]
    lived(KStore(), kind, tmp_path, writes(kind, 0))
    with KStore().open(kind, tmp_path, read_only=True) as run:
        position = run({"op": "state"})["position"]
    (tmp_path / f"{NAME}.position").write_text("0\n1\nother 3 55\n")
    lived(Kafka(kafka), kind, tmp_path, [*wake(kind, 0), commit(70)])
    with KStore().open(kind, tmp_path, read_only=True) as run:
        assert run({"op": "state"})["position"] == {**position, "other": {"3": 55}}


@pytest.mark.parametrize("name", ["key-value, headers", "window, headers"])
def test_exactly_once_opens_what_kstore_closed(kafka: Harness, tmp_path: Path, name: str) -> None:
    """Kafka then asks for the mark of a clean close and for an offset in every store."""
    kind = BY_NAME[name]
    lived(KStore(), kind, tmp_path, writes(kind, 0))
    assert lived(Kafka(kafka), kind, tmp_path, [everything(kind)], exactly_once=True)[0]
