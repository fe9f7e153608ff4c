"""Every file of a log is damaged, beside its store: the answer is right, or an error or finding.

Records that the store contains, or in front of a batch that is sound, are never missing from a log
that is called sound or restored without an error; and a log that is refused loses no byte.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core import open_state
from kstore_core.changelog import FileChangelog, LogConfig
from kstore_core.changelog.files.segment import list_segments
from kstore_core.changelog.files.tail import cuts
from kstore_core.errors import (
    CorruptionError,
    FormatError,
    InconsistentStateError,
    KStoreError,
    UnsupportedError,
)
from kstore_core.maintenance.doctor import examine
from kstore_core.maintenance.verify import verify
from kstore_core.maintenance.verify.findings import Counts
from kstore_core.maintenance.verify.logs import check_end, check_log
from tests.damage.broken_logs import (
    PARTITION,
    RECORDS,
    SPEC,
    TOPIC,
    Damage,
    batch_behind,
    bytes_of,
    damages,
    log_of,
    logs,
    read_log,
    rows_until,
    written,
)

SEED, SAMPLES = 14, 4
REFUSALS = (CorruptionError, FormatError, InconsistentStateError, UnsupportedError)
CONTAINS = {PARTITION: RECORDS - 1}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("home"))


@pytest.fixture
def trials(home: Path, tmp_path: Path) -> Iterator[tuple[Damage, Path]]:
    """Each damage, and a copy of the store and the log that has it."""

    def tried() -> Iterator[tuple[Damage, Path]]:
        for number, damage in enumerate(damages(home, SEED, SAMPLES)):
            root = tmp_path / str(number)
            for name in ("store", "logs"):
                shutil.copytree(home / name, root / name)
            damage.do(log_of(root))
            yield damage, root
            shutil.rmtree(root)

    return tried()


def found_in(log: Path, contains: dict[tuple[str, int], int] | None = None) -> set[str]:
    """How serious verify takes what it finds."""
    found = (one for one in check_log(log, contains) if not isinstance(one, Counts))
    return {severity for severity, _ in found}


def read_alone(root: Path) -> list[bytes | None] | None:
    """The values of all records, in order; None where the log is refused."""
    try:
        with read_log(root) as log:
            return [record.value for columns in log.read() for record in columns]
    except REFUSALS:
        return None


VALUES = list(rows_until(RECORDS).values())


def test_verify_and_doctor_with_the_store(trials: Iterator[tuple[Damage, Path]]) -> None:
    """What is called sound holds every record that the store contains."""
    seen: Counter[str] = Counter()
    for damage, root in trials:
        log = log_of(root)
        before = bytes_of(log)
        severities = found_in(log, CONTAINS)
        ends = {severity for severity, _ in check_end(log, CONTAINS)}
        assert bytes_of(log) == before
        if severities <= {"note"}:
            assert read_alone(root) == VALUES, str(damage)
            assert ends <= {"note"}, f"doctor: {damage}"
        else:
            assert "corrupt" in severities, str(damage)
        with read_log(root) as reader:
            try:
                short = reader.high_watermark < RECORDS
            except (CorruptionError, UnsupportedError):
                short = True
        assert not short or "corrupt" in ends, f"doctor: {damage}"
        seen["sound" if severities <= {"note"} else "corrupt"] += 1
    assert min(seen["sound"], seen["corrupt"]) > 5, seen


def test_verify_without_the_store(trials: Iterator[tuple[Damage, Path]]) -> None:
    """What is called sound is read without an error, and ends where the last sound batch does."""
    for damage, root in trials:
        severities = found_in(log_of(root))
        values = read_alone(root)
        if severities <= {"note"}:
            assert values is not None, str(damage)
            check_prefix(damage, root, values)


def check_prefix(damage: Damage, root: Path, values: list[bytes | None]) -> None:
    assert values == VALUES[: len(values)], str(damage)
    if len(values) < RECORDS and not damage.base_offset:
        assert not batch_behind(log_of(root), len(values)), f"records are missing: {damage}"


def test_restores(trials: Iterator[tuple[Damage, Path]]) -> None:
    """Into the store nothing is changed for the worse; into a new one no record is passed over."""
    seen: Counter[str] = Counter()
    for damage, root in trials:
        before = bytes_of(log_of(root))
        try:
            with open_state(root / "store") as state, read_log(root) as log:
                state.restore(SPEC, log)
                seen["gone on"] += 1
        except REFUSALS:
            seen["refused"] += 1
        with open_state(root / "store", read_only=True) as state:
            assert dict(state.open(SPEC).all()) == rows_until(RECORDS), str(damage)
        try:
            with open_state(root / "new", engine="memory") as state, read_log(root) as log:
                state.restore(SPEC, log)
                rows = dict(state.open(SPEC).all())
            check_prefix(damage, root, list(rows.values()))
            assert rows == rows_until(len(rows)), str(damage)
            seen["anew"] += 1
        except REFUSALS:
            seen["not anew"] += 1
        assert bytes_of(log_of(root)) == before, f"a reader changed the log: {damage}"
    assert min(seen.values()) > 5, seen


def test_writers(trials: Iterator[tuple[Damage, Path]]) -> None:
    """One that is refused has changed nothing; one that goes on has all, and keeps what it cuts."""
    seen: Counter[str] = Counter()
    for damage, root in trials:
        log = log_of(root)
        before = bytes_of(log)
        for path in ("store", "new"):
            try:
                with open_state(root / path, engine="lmdb", changelog=logs(root)) as state:
                    store = state.open(SPEC)
                    rows = dict(store.all())
                    assert bytes_of(log) == before, f"changed by opening it: {damage}"
                    if path == "store":
                        assert rows == rows_until(RECORDS), str(damage)
                        store.put(b"new", b"v")
                        state.commit({("in", 0): 99})
                    else:
                        check_prefix(damage, root, list(rows.values()))
            except REFUSALS:
                assert bytes_of(log) == before, f"a log that was refused was changed: {damage}"
                seen[f"{path} refused"] += 1
                continue
            seen[f"{path} opened"] += 1
            if path == "store":
                after = bytes_of(log)
                for name, data in before.items():
                    if name.endswith(".log"):
                        cut = after.get(f"{name}.cut-1", b"")
                        kept = after[name][: len(data) - len(cut)] + cut
                        assert kept == data, f"bytes are gone from {name}: {damage}"
                with open_state(root / "store", read_only=True) as state:
                    assert dict(state.open(SPEC).all()) == {**rows_until(RECORDS), b"new": b"v"}
                break
    assert min(seen.values()) > 5, seen


def test_compactions(trials: Iterator[tuple[Damage, Path]]) -> None:
    """Records of a log that is damaged do not go with a compaction."""
    config = LogConfig(segment_bytes=450)
    for damage, root in trials:
        log = log_of(root)
        before, values = bytes_of(log), read_alone(root)
        try:
            with FileChangelog(root / "logs", TOPIC, config=config) as changelog:
                changelog.compact()
        except REFUSALS:
            assert {n: d for n, d in bytes_of(log).items() if n in before} == before, str(damage)
        else:
            assert values is None or read_alone(root) == values, str(damage)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_torn_tail_is_never_called_corrupt(home: Path, tmp_path: Path, behind: int) -> None:
    """A batch that the store does not contain, cut anywhere; zeros may fill the file."""
    root = tmp_path / "home"
    shutil.copytree(home, root)
    whole = list_segments(log_of(root))[-1].path.read_bytes()
    with FileChangelog(root / "logs", TOPIC) as log:
        for number in range(3):
            log.append(b"torn%d" % number, b"v", 7)
        log.commit()
    path = list_segments(log_of(root))[-1].path
    data = path.read_bytes()
    size = len(whole) if data.startswith(whole) else 0
    for cut in range(size, len(data)):
        path.write_bytes(data[:cut] + bytes(behind * 5000 * (cut % 7 == 0)))
        assert found_in(log_of(root), CONTAINS) <= {"note"}, cut
        assert read_alone(root) == VALUES
        with open_state(root / "store", changelog=logs(root)) as state:
            state.open(SPEC)
        with open_state(root / "new", engine="memory", changelog=logs(root)) as state:
            assert dict(state.open(SPEC).all()) == rows_until(RECORDS)


def test_the_commands_say_what_is_wrong(home: Path, tmp_path: Path) -> None:
    """A log zeroed to the same length, as verify and doctor tell of it; and what was cut off."""
    root = tmp_path / "home"
    shutil.copytree(home, root)
    place = {"engine": "lmdb", "changelog": log_of(root)}
    for path in (segment.path for segment in list_segments(log_of(root))):
        path.write_bytes(bytes(path.stat().st_size))
    for found in (verify(root / "store", **place), examine(root / "store", **place)):
        assert found.exit_code == 4
        (why,) = {f.why for f in found.findings if f.severity == "corrupt" and "contains" in f.why}
        assert "zero bytes, which a power cut leaves, but the" in why
        assert f"the store contains the log up to offset {RECORDS - 1}" in why
        assert all("copy of the log" in f.remedy for f in found.findings if f.severity == "corrupt")
    with (
        pytest.raises(KStoreError, match="Nothing was changed"),
        open_state(root / "store", changelog=logs(root)) as state,
    ):
        state.open(SPEC)
    shutil.rmtree(root / "logs")
    shutil.copytree(home / "logs", root / "logs")
    last = list_segments(log_of(root))[-1].path
    last.write_bytes(last.read_bytes() + bytes(100))
    with open_state(root / "store", changelog=logs(root)) as state:
        state.open(SPEC).put(b"new", b"v")
    (cut,) = cuts(log_of(root))
    found = examine(root / "store", **place)
    (note,) = (f for f in found.findings if f.what == "leftover" and f.place.store == "s")
    assert (found.exit_code, note.severity) == (0, "note")
    assert f"100 bytes of an interrupted write were cut off {log_of(root)}" in note.why
    assert note.remedy == f"when you no longer need these files, delete them with: rm -r {cut}"
