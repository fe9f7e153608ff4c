"""Files of a log: what its readers find, and what its writer cuts off, of any bytes."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kstore_core.changelog import FileChangelog
from kstore_core.changelog.files.segment import Segment, heads, records
from kstore_core.changelog.files.tail import Rest, Tail, cut_rest, find_end
from kstore_core.errors import CorruptionError, KStoreError, UnsupportedError
from tests.fuzz.batches import GOLDEN_BATCHES, as_tuple, mended
from tests.fuzz.family import Family, Refused, tried

REFUSALS: tuple[type[KStoreError], ...] = (CorruptionError, UnsupportedError)
_made: list[Path] = []


def _directory() -> Path:
    """A log's directory, removed at the end."""
    if not _made:
        root = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        _made.append(Path(root, "t-0"))
        _made[0].mkdir()
    return _made[0]


def _checked_end(segment: Segment) -> tuple[Tail, Rest]:
    tail, rest = find_end(segment, verify=True)
    rest.check(tail)
    return tail, rest


def read(segment: Segment) -> list[Any]:
    return [as_tuple(record) for columns in records(segment, 0) for record in columns]


def check(data: bytes) -> None:
    segment = Segment.at(_directory(), 0)
    segment.path.write_bytes(data)
    before = tried(read, segment, refusals=REFUSALS)
    tried(lambda: list(heads(segment, verify=True)), refusals=REFUSALS)
    tried(find_end, segment, refusals=REFUSALS)
    end = tried(_checked_end, segment, refusals=REFUSALS)
    assert segment.path.read_bytes() == data, "who looks for the end changes nothing"
    if isinstance(end, Refused):
        return
    tail, rest = end
    assert rest.size == len(data) - tail.position
    if rest:
        kept = cut_rest(tail)
        assert kept.read_bytes() == data[tail.position :], "what is cut off is kept"
        kept.unlink()
    assert segment.path.read_bytes() == data[: tail.position], "only the rest is cut off"
    after = tried(read, segment, refusals=REFUSALS)
    assert isinstance(before, Refused) or after == before, "no record went with it"
    assert find_end(segment, verify=True) == (tail, Rest("none")), "and then nothing is left"
    if not isinstance(after, Refused):
        with FileChangelog(_directory().parent, "t", read_only=True) as log:
            assert log.high_watermark == tail.next_offset
            assert [as_tuple(r) for columns in log.read() for r in columns] == after


def check_mended(data: bytes) -> None:
    """Two batches, the first one with the right checksum."""
    at = len(data) * 2 // 3
    check(mended(data[:at]) + data[at:])


def _sorted() -> list[bytes]:
    """Batches whose offsets rise."""
    return sorted(GOLDEN_BATCHES, key=lambda batch: batch[:8])


FAMILY = Family(
    "logs",
    [check, check_mended],
    [
        *((which, batch) for batch in GOLDEN_BATCHES[:20] for which in (0, 1)),
        *((0, b"".join(_sorted()[at : at + 2])) for at in range(6)),
        *((0, b"".join(_sorted()[at : at + 2])[:-9]) for at in range(6)),
        (0, GOLDEN_BATCHES[0] + bytes(40)),
    ],
    cost=40,
)
