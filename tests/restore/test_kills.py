"""SIGKILL while a store logs, and while it is restored."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.changelog import FileChangelog
from kstore_core.testing.kinds import Kind
from tests.restore.killed import KINDS, commit_for_ever, ops_of, restore, started
from tests.restore.stores import contents, logs, open_log, spec_of, write
from tests.support.memory import STATUS
from tests.support.places import ROOT

pytestmark = pytest.mark.usefixtures("left_sound")
on_each_engine = pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
of_each_kind = pytest.mark.parametrize("number", range(len(KINDS)), ids=lambda n: str(KINDS[n]))


def replayed(kind: Kind, root: Path) -> object:
    """What the log says, put into a store in memory."""
    with open_log(root / "logs") as log, open_state("m", engine="memory") as state:
        state.restore(spec_of(kind), log)
        return contents(kind, state.open(spec_of(kind)))


@on_each_engine
@of_each_kind
def test_after_a_kill_the_store_is_what_its_log_says(
    tmp_path: Path, engine: str, number: int
) -> None:
    kind = KINDS[number]
    for life in range(1, 4):
        with started(commit_for_ever, tmp_path, engine, number) as (process, tells):
            told = list(itertools.islice(tells, 3 * life))
            assert len(told) == 3 * life
            process.kill()
            told += tells
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


@on_each_engine
@of_each_kind
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
        with started(restore, tmp_path, engine, number) as (process, tells):
            assert next(tells) == "begun"
            time.sleep(generator.random() * 0.15)
            process.kill()
    with started(restore, tmp_path, engine, number) as (_, tells):
        assert list(tells) == ["begun", "done"]
    assert not list((tmp_path / "new").glob(".kstore-restore-*"))
    with open_state(tmp_path / "new", engine=engine) as state:
        assert contents(kind, state.open(spec_of(kind))) == wanted


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc")
@of_each_kind
def test_memory_does_not_grow_with_the_log(tmp_path: Path, number: int) -> None:
    """400 MB of records are restored in less memory, with that of the engine and of the imports."""
    kind = KINDS[number]
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path / "one")) as state:
        write(kind, state.open(spec_of(kind)), [(b"k", b"v", 50, [("a", b"1")])])
    with (
        open_log(tmp_path / "one") as one,
        FileChangelog(tmp_path / "logs", one.topic) as log,
    ):
        (record,) = next(one.read())
        for at in range(200_000):
            log.append(b"%06d" % (at % 50_000) + record.key, b"v" * 2000, at // 5_000)
    code = f"""
from tests.restore.killed import KINDS
from tests.restore.stores import open_log, spec_of
from tests.support.memory import peak_bytes
from kstore_core import open_state
from pathlib import Path
with open_log(Path({str(tmp_path / "logs")!r})) as log:
    with open_state({str(tmp_path / "new")!r}, engine="rocksdb") as state:
        state.open(spec_of(KINDS[{number}]))
        with peak_bytes() as peak:
            assert state.restore(spec_of(KINDS[{number}]), log).records == 200_000
print(peak() // 2**20)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert int(ran.stdout) < 360, ran.stdout
