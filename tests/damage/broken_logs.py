"""A store and its log, the damage that each file of a log is given, and what may be read then."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kstore_core import open_state, stores
from kstore_core.changelog import ChangelogDirectory, FileChangelog
from kstore_core.changelog.files.segment import heads, list_segments
from kstore_core.codec import find_batch
from kstore_core.offsets.entries import Partition
from kstore_core.system.lock import LOCK_FILE

SPEC = stores.key_value("s").with_changelog({"segment.bytes": "450"})
TOPIC = "app-s-changelog"
PARTITION: Partition = (TOPIC, 0)
RECORDS = 60
A_COMMIT = 4

Rows = dict[bytes, bytes]


def logs(root: Path) -> ChangelogDirectory:
    return ChangelogDirectory(root / "logs", application_id="app", partition=0)


def log_of(root: Path) -> Path:
    return root / "logs" / f"{TOPIC}-0"


def read_log(root: Path) -> FileChangelog:
    return FileChangelog(root / "logs", TOPIC, read_only=True)


def rows_until(count: int) -> Rows:
    """What the first records of the log make of the store: every record is of a key of its own."""
    return {b"k%02d" % number: b"v%d" % number for number in range(count)}


def written(root: Path) -> Path:
    """A store, its log in several files, and copies of the log as it was earlier."""
    with open_state(root / "store", engine="lmdb", changelog=logs(root)) as state:
        store = state.open(SPEC)
        for number, (key, value) in enumerate(rows_until(RECORDS).items()):
            store.put(key, value)
            if number % A_COMMIT == A_COMMIT - 1:
                state.commit()  # which has no marks in the log, so each record has its row's offset
                shutil.copytree(log_of(root), root / f"then-{number + 1}")
    assert len(list_segments(log_of(root))) > 3
    return root


@dataclass(frozen=True)
class Damage:
    """Something done to the files of a log."""

    what: str
    file: str
    do: Callable[[Path], object]
    base_offset: bool = False
    """Whether a base offset is changed, which no checksum covers."""

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def damages(root: Path, seed: int, samples: int) -> Iterator[Damage]:
    """Damage of each kind to each file of the log below ``root``."""
    chosen = random.Random(seed)
    log = log_of(root)
    names = sorted(path.name for path in log.iterdir() if path.name != LOCK_FILE)
    for name in names:
        data = (log / name).read_bytes()
        ends = _ends(log, name)
        yield Damage("emptied", name, _write(name, b""))
        yield Damage("zeroed", name, _write(name, bytes(len(data))))
        yield Damage("removed", name, lambda log, name=name: (log / name).unlink())
        cuts = {*ends[:-1], *chosen.sample(range(1, len(data)), min(samples, len(data) - 1))}
        for cut in sorted(cuts):
            yield Damage(f"cut at {cut}", name, _write(name, data[:cut]))
            rest = bytes(len(data) - cut)
            yield Damage(f"zeroed from {cut}", name, _write(name, data[:cut] + rest))
        for more in (b"\0", bytes(700), b"garbage", chosen.randbytes(90), data[-40:], data):
            yield Damage(f"and {more[:9]!r} …", name, _write(name, data + more))
        for at in sorted(chosen.sample(range(len(data)), min(2 * samples, len(data)))):
            bad = bytearray(data)
            bad[at] ^= 1 << chosen.randrange(8)
            begins = max((end for end in ends if end <= at), default=0)
            uncovered = name.endswith(".log") and at - begins < 8
            yield Damage(f"flipped at {at}", name, _write(name, bytes(bad)), uncovered)
        for then in sorted(root.glob("then-*")):
            old = then / name
            if old.exists() and old.read_bytes() != data:
                yield Damage(f"as of {then.name}", name, _write(name, old.read_bytes()))
    files = [name for name in names if name.endswith(".log")]
    for one in files:
        for other in files:
            if one < other:
                yield Damage(f"swapped with {other}", one, _swap(one, other))
    for then in sorted(root.glob("then-*")):
        yield Damage(f"as of {then.name}", "the log", _put_back(then))


def _ends(log: Path, name: str) -> list[int]:
    """Where the batches of a file end."""
    segment = next((one for one in list_segments(log) if one.path.name == name), None)
    return [0, *((head.at + head.size) for head in (heads(segment) if segment else ()))]


def _write(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda log: (log / name).write_bytes(data)


def _swap(one: str, other: str) -> Callable[[Path], object]:
    def swap(log: Path) -> None:
        first, second = (log / one).read_bytes(), (log / other).read_bytes()
        (log / one).write_bytes(second)
        (log / other).write_bytes(first)

    return swap


def _put_back(then: Path) -> Callable[[Path], object]:
    def put_back(log: Path) -> None:
        shutil.rmtree(log)
        shutil.copytree(then, log)

    return put_back


def bytes_of(log: Path) -> dict[str, bytes]:
    """All files of a log but the lock."""
    return {path.name: path.read_bytes() for path in log.iterdir() if path.name != LOCK_FILE}


def batch_behind(log: Path, offset: int) -> bool:
    """Whether any file of a log has a sound batch that begins at an offset or behind it."""
    return any(
        find_batch(segment.path.read_bytes(), min_offset=offset) is not None
        for segment in list_segments(log)
    )
