"""SIGKILL while a store logs, and while it is restored."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.changelog import FileChangelog
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW, Kind
from tests.restoring.stores import Op, contents, logs, open_log, spec_of, write

KINDS = (KEY_VALUE[2], VERSIONED[1], WINDOW[4], SESSION[1])

WRITER = """
import sys
from pathlib import Path
from kstore_core import open_state
from tests.restoring.stores import logs, spec_of, write
from tests.restoring.test_kills import KINDS, ops_of

root, engine, kind = Path(sys.argv[1]), sys.argv[2], KINDS[int(sys.argv[3])]
with open_state(
    root / "0_0", engine=engine, changelog=logs(root / "logs"), uncommitted_max_bytes=2000
) as state:
    store = state.open(spec_of(kind))
    for number in range(state.offsets("s").get(("in", 0), -1) + 1, 10_000):
        write(kind, store, ops_of(number))
        state.commit({("in", 0): number})
        print(number, flush=True)
"""

RESTORER = """
import sys
from pathlib import Path
from kstore_core import open_state, restore_log
from kstore_core.changelog import segment
from tests.restoring.stores import logs, spec_of
from tests.restoring.test_kills import KINDS

root, engine, kind = Path(sys.argv[1]), sys.argv[2], KINDS[int(sys.argv[3])]
restore_log.BATCH_BYTES = restore_log.BUILD_BYTES = restore_log.PUT_BYTES = 500
segment._CHUNK_BYTES = 200
print("begun", flush=True)
with open_state(
    root / "new", engine=engine, changelog=logs(root / "logs")
) as state:
    state.open(spec_of(kind))
print("done", flush=True)
"""


def ops_of(number: int) -> list[Op]:
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


def started(script: str, root: Path, engine: str, kind: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(root), engine, str(kind)]
    cwd = Path(__file__).parents[2]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd)


def replayed(kind: Kind, root: Path) -> object:
    """What the log says, put into a store in memory."""
    with open_log(root / "logs") as log, open_state("m", engine="memory") as state:
        state.restore(spec_of(kind), log)
        return contents(kind, state.open(spec_of(kind)))


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
@pytest.mark.parametrize("number", range(len(KINDS)), ids=lambda n: str(KINDS[n]))
def test_after_a_kill_the_store_is_what_its_log_says(
    tmp_path: Path, engine: str, number: int
) -> None:
    kind = KINDS[number]
    for life in range(1, 4):
        with started(WRITER, tmp_path, engine, number) as process:
            assert process.stdout is not None
            told = [int(process.stdout.readline()) for _ in range(3 * life)]
            process.send_signal(signal.SIGKILL)
            told += map(int, process.stdout)
        with open_state(
            tmp_path / "0_0", engine=engine, changelog=logs(tmp_path / "logs")
        ) as state:
            store = state.open(spec_of(kind))
            assert store.offsets()["in", 0] >= told[-1]
            found = contents(kind, store)
        assert found == replayed(kind, tmp_path)
    with open_state(tmp_path / "model", engine="memory") as state:
        store = state.open(spec_of(kind))
        for number_ in range(told[-1] + 1):
            write(kind, store, ops_of(number_))
        assert store.stream_time is None or found[0] >= store.stream_time  # type: ignore[index]


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
@pytest.mark.parametrize("number", range(len(KINDS)), ids=lambda n: str(KINDS[n]))
def test_a_restore_that_is_killed_again_and_again_comes_to_an_end(
    tmp_path: Path, engine: str, number: int
) -> None:
    kind = KINDS[number]
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path / "logs")) as state:
        store = state.open(spec_of(kind))
        for commit in range(60):
            write(kind, store, ops_of(commit))
            state.commit()
        wanted: Any = contents(kind, store)
    generator = random.Random(number)
    for _ in range(4):
        with started(RESTORER, tmp_path, engine, number) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(generator.random() * 0.15)
            process.send_signal(signal.SIGKILL)
    with started(RESTORER, tmp_path, engine, number) as process:
        assert process.stdout is not None
        assert process.stdout.read().endswith("done\n")
    assert not list((tmp_path / "new").glob(".kstore-restore-*"))
    with open_state(tmp_path / "new", engine=engine) as state:
        assert contents(kind, state.open(spec_of(kind))) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(KINDS)), ids=lambda n: str(KINDS[n]))
def test_memory_does_not_grow_with_the_log(tmp_path: Path, number: int) -> None:
    """400 MB of records are restored in 256 MiB and what the engine takes."""
    kind = KINDS[number]
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path / "one")) as state:
        write(kind, state.open(spec_of(kind)), [(b"k", b"v", 50, [("a", b"1")])])
    with (
        open_log(tmp_path / "one") as one,
        FileChangelog(tmp_path / "logs", one.topic) as log,
    ):
        (record,) = next(one.read())
        for at in range(400_000):
            log.append(b"%06d" % (at % 100_000) + record.key, b"v" * 1000, at // 10_000)
    code = f"""
import resource
from tests.restoring.test_kills import KINDS
from tests.restoring.stores import open_log, spec_of
from kstore_core import open_state
from pathlib import Path
import pyarrow
with open_log(Path({str(tmp_path / "logs")!r})) as log:
    with open_state({str(tmp_path / "new")!r}, engine="rocksdb") as state:
        state.open(spec_of(KINDS[{number}]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert state.restore(spec_of(KINDS[{number}]), log).records == 400_000
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert int(ran.stdout) < 256, ran.stdout
