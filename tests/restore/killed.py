"""Processes that log a store, or restore it, and are killed: forks of one that has all imported."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from kstore_core import open_state
from kstore_core.changelog.files import segment
from kstore_core.restore import replay as restore_log
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW
from tests.restore.stores import Op, logs, spec_of, write

KINDS = (KEY_VALUE[2], VERSIONED[1], WINDOW[4], SESSION[1])

Work = Callable[[Connection, Path, str, int], None]


def ops_of(number: int) -> list[Op]:
    """What a commit writes."""
    generator = random.Random(number)
    return [
        (
            b"k%d" % generator.randrange(9),
            None if generator.random() < 0.2 else b"%d-%d" % (number, at) * 5,
            number // 4 + generator.randrange(12),
            [("n", b"%d" % number)],
        )
        for at in range(12)
    ]


def commit_for_ever(told: Connection, root: Path, engine: str, kind: int) -> None:
    """Go on where the store is; tell the number of each commit that came back."""
    with open_state(
        root / "0_0", engine=engine, changelog=logs(root / "logs"), uncommitted_max_bytes=2000
    ) as state:
        store = state.open(spec_of(KINDS[kind]))
        for number in range(state.offsets("s").get(("in", 0), -1) + 1, 10_000):
            write(KINDS[kind], store, ops_of(number))
            state.commit({("in", 0): number})
            told.send(number)


def restore(told: Connection, root: Path, engine: str, kind: int) -> None:
    """Restore the store in small steps; tell when that is begun and done."""
    restore_log.BATCH_BYTES = restore_log.BUILD_BYTES = restore_log.PUT_BYTES = 500
    segment._CHUNK_BYTES = 200
    told.send("begun")
    with open_state(root / "new", engine=engine, changelog=logs(root / "logs")) as state:
        state.open(spec_of(KINDS[kind]))
    told.send("done")


@contextmanager
def started(
    work: Work, root: Path, engine: str, kind: int
) -> Iterator[tuple[BaseProcess, Iterator[Any]]]:
    """A process at work, and what it tells until it ends; it has ended behind the block."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    with ours:
        with theirs:
            process = context.Process(target=work, args=(theirs, root, engine, kind))
            process.start()
        try:
            yield process, _told(ours)
        finally:
            process.kill()
            process.join()
            process.close()


def _told(pipe: Connection) -> Iterator[Any]:
    try:
        while True:
            yield pipe.recv()
    except EOFError:
        return
