"""Logs for the tests of changelogs in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstore_core.changelog import Changelog, FileChangelog, LogConfig
from kstore_core.codec import LogRecord
from tests.support.threads import run_all

TOPIC = "app-s-changelog"


def open_log(root: Path, **options: Any) -> FileChangelog:
    """A log of small batches; fields of its LogConfig may be given beside its own options."""
    names = LogConfig.__slots__
    config = LogConfig(**{name: options.pop(name) for name in names if name in options})
    return FileChangelog(root, TOPIC, config=config, batch_bytes=200, **options)


def fill(log: FileChangelog, count: int, *, keys: int = 7, a_commit: int = 5) -> None:
    """Append records that say their own offset, and commit them some at a time."""
    for offset in range(log.end_offset, log.end_offset + count):
        key, value = b"k%d" % (offset % keys), b"v%d" % offset
        log.append(key, value, offset, [("n", b"%d" % offset)])
        if offset % a_commit == a_commit - 1:
            log.commit()
    log.commit()


def contents(log: Changelog, from_offset: int | None = None) -> list[LogRecord]:
    return [record for columns in log.read(from_offset) for record in columns]


def append_in_threads(
    log: Changelog, count: int, *, every: int, then: Callable[[], object]
) -> None:
    """Append records in four threads and check that each thread's records keep their order.

    Each thread calls `then` after the first of every so many records.
    """

    def write(key: bytes) -> None:
        for number in range(count):
            log.append(key, b"%d" % number, 1)
            if number % every == 0:
                then()

    keys = [b"%d" % number for number in range(4)]
    run_all(*(partial(write, key) for key in keys))
    log.commit()
    found = contents(log)
    for key in keys:
        values = [record.value for record in found if record.key == key]
        assert values == [b"%d" % number for number in range(count)]


@contextmanager
def before_call(number: int, do: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Call `do` before the block opens, lists or examines a file for the given time (from 1).

    The function that the block gets tells whether there were so many calls.
    """
    calls = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                do()
            return real(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "iterdir", "stat", "read_bytes"):
            patch.setattr(Path, name, counted(getattr(Path, name)))
        yield lambda: calls >= number


def files(log: FileChangelog) -> list[str]:
    return sorted(path.name for path in log.path.iterdir() if not path.name.startswith("."))


def bytes_of(log: FileChangelog) -> bytes:
    return b"".join((log.path / name).read_bytes() for name in files(log))


def read_whole(root: Path) -> list[LogRecord]:
    """What a reader finds that opens the log anew."""
    with open_log(root, read_only=True) as log:
        return contents(log)
