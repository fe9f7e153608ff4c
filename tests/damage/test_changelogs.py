"""Every file of a changelog is damaged: an error, what was written, or the beginning of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kstore_core.changelog import FileChangelog, LogConfig
from kstore_core.changelog.files.segment import Segment, heads
from kstore_core.maintenance.verify.findings import Counts
from kstore_core.maintenance.verify.logs import check_log
from tests.damage.made import SAMPLES, SEED
from tests.damage.trials import Reader, copied, files_of, samples

HEADERS = [("trace-id", b"\x00\xff"), ("trace-id", None)]


def written(root: Path) -> Path:
    """A log of three segments and some batches each."""
    config = LogConfig(segment_bytes=6000)
    with FileChangelog(root, "t", config=config, batch_bytes=1000) as log:
        for number in range(300):
            value = None if number % 9 == 8 else b"v%d" % number
            log.append(b"key-%03d" % (number * 7 % 100), value, number, HEADERS)
            if number % 30 == 29:
                log.commit()
    assert len(list((root / "t-0").glob("*.log"))) >= 3
    return root


def offsets_in(file: Path) -> set[int]:
    """The bytes that say which offset a batch begins with, which Kafka's checksum leaves out."""
    heads_ = heads(Segment(int(file.stem), file)) if file.suffix == ".log" else ()
    return {head.at + byte for head in heads_ for byte in range(8)}


def without_offsets(rows: list[str]) -> list[str]:
    return [row.partition(", ")[2] for row in rows]


def test_damaged_changelogs(tmp_path: Path) -> None:
    home = written(tmp_path / "logs")
    seen: Counter[str] = Counter()
    with Reader() as reader:
        whole = reader.read(kind="log", path=str(home / "t-0"), read_only=True).read
        assert whole is not None
        lines = whole.split("\n")
        last = max(file for file in files_of(home) if file.suffix == ".log")
        for file in files_of(home):
            for damage in samples(home, file, 20 * SAMPLES, SEED):
                for read_only in (True, False):
                    root = copied(home, tmp_path / "damaged")
                    damage.do(root)
                    checked = (
                        []
                        if file.suffix != ".log"
                        else [
                            found
                            for found in check_log(root / "t-0")
                            if not isinstance(found, Counts)
                        ]
                    )
                    outcome = reader.read(kind="log", path=str(root / "t-0"), read_only=read_only)
                    where = f"{damage}, read_only={read_only}: {outcome.error or outcome}"
                    assert outcome.died is None, where
                    assert outcome.untyped is None, where
                    if outcome.read is None:
                        assert outcome.error in ("CorruptionError", "FormatError", "StateError")
                        assert checked, f"verify does not tell of it: {where}"
                        seen["error"] += 1
                        continue
                    rows = outcome.read.split("\n")[1:]
                    if outcome.read == whole:
                        seen["right"] += 1
                    elif damage.what == "flip" and damage.at in offsets_in(home / file):
                        assert without_offsets(rows) == without_offsets(lines[1:]), where
                        seen["offsets"] += 1
                    else:
                        assert file == last, f"a wrong answer: {where}"
                        assert rows == lines[1 : 1 + len(rows)], f"no prefix: {where}"
                        seen["prefix"] += 1
    assert min(seen["error"], seen["right"], seen["prefix"]) > 0, seen
