"""SIGKILL in the middle of commits over many segments."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kstore_core import open_state
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import database
from tests.support.places import ROOT
from tests.tables.segments.killed import PARTITION, starts
from tests.tables.segments.rows import kafkas_offset, window_spec

pytestmark = pytest.mark.usefixtures("left_sound")

LIFE = """
import sys
from kstore_core import open_state
from kstore_core.engine import database
from kstore_core.tables.segments import children
from tests.tables.segments.killed import PARTITION, starts
from tests.tables.segments.rows import window_spec

children.MAX_OPEN = 3
database.LARGE_ROWS = large = int(sys.argv[3])
limit = 150 if large == 1 else 64 << 20  # 150 bytes: a spill for every second row
with open_state(
    sys.argv[1], engine="rocksdb", durability=sys.argv[2], uncommitted_max_bytes=limit
) as state:
    store = state.open(window_spec())
    first = state.offsets().get(PARTITION, 0) + 1
    for number in range(first, 10_000):
        for start in starts(number):
            store.put(b"%d" % number, b"v" * 50, window_start=start)
        state.commit({PARTITION: number})
        print(number, flush=True)
"""


@pytest.mark.parametrize("large", [database.LARGE_ROWS, 1])
@pytest.mark.parametrize("level", ["process", "changelog"])
def test_offsets_are_never_ahead_of_rows_after_a_kill(tmp_path, level, large):
    root = tmp_path / "0_0"
    engine = engine_class("rocksdb")()
    for life in range(1, 5):
        command = [sys.executable, "-c", LIFE, str(root), level, str(large)]
        cwd = ROOT
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd) as process:
            assert process.stdout is not None
            told = [int(process.stdout.readline()) for _ in range(5 * life)]
            process.send_signal(signal.SIGKILL)
            told += map(int, process.stdout)
        with open_state(root, engine=engine, read_only=True) as state:
            ours = state.offsets("w").get(PARTITION, 0)
            there = {(window.key, window.start) for window, _ in state.open(window_spec()).all()}
        assert (kafkas_offset(engine, root, PARTITION) or 0) <= ours
        if level == "process":
            assert ours >= told[-1]
        wanted = {(b"%d" % n, start) for n in range(1, ours + 1) for start in starts(n)}
        assert wanted <= there
    assert ours > 0
