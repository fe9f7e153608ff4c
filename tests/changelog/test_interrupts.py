"""A log that is interrupted at any moment: the same process goes on with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kstore_core.changelog import FileChangelog
from kstore_core.changelog.files.segment import list_segments
from kstore_core.changelog.files.tail import cuts
from tests.changelog.logs import fill, open_log, read_whole


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Call something; whether it came to one of the log's moments, by number, and ended there.

    Moments are those at which Python looks for signals: the begin of a function, and the return of
    one that is compiled.
    """
    moments = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal moments
        if event in ("call", "c_return") and "/kstore_core/changelog/" in frame.f_code.co_filename:
            moments += 1
            if moments == at:
                raise KeyboardInterrupt

    before = sys.getprofile()
    try:
        sys.setprofile(profile)
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False


def waiting(root: Path) -> FileChangelog:
    """A log with a torn tail, and records that wait for a commit of several files."""
    with open_log(root, segment_bytes=300) as log:
        fill(log, 3)
    with list_segments(log.path)[-1].path.open("ab") as file:
        file.write((3).to_bytes(8) + b"\0\0\1\0half"[:6])
    log = open_log(root, segment_bytes=300)
    for number in range(3, 20):
        log.append(b"k%d" % number, b"v%d" % number, number)
    return log


@pytest.mark.parametrize("name", ["commit", "roll", "append", "compact", "close"])
def test_an_interrupt_at_any_moment(name: str, tmp_path: Path) -> None:
    """Each record is in the log once, in its order; after a close, those that were committed."""
    at, was_interrupted = 0, True
    while was_interrupted:
        at += 1 + at // 30
        assert at < 5000
        root = tmp_path / str(at)
        log = waiting(root)
        if name == "compact":
            log.roll()
        call = getattr(log, name)
        was_interrupted = interrupted(
            (lambda log=log: log.append(b"k20", b"v20", 20)) if name == "append" else call, at
        )
        if name == "close":
            log.close()
            assert len(read_whole(root)) == 3
            continue
        added = log.commit() - 20
        assert added in ((0, 1) if name == "append" else (0,)), at
        for number in range(20 + added, 25):
            log.append(b"k%d" % number, b"v%d" % number, number)
        log.close()
        with open_log(root, segment_bytes=300) as log:
            fill(log, 0)
        found = read_whole(root)
        assert [record.offset for record in found] == list(range(20 + added)), at
        assert [record.value for record in found] == [b"v%d" % n for n in range(20 + added)], at
        assert len(cuts(log.path)) == 1, at
    assert at > (1 if name == "close" else 10)
