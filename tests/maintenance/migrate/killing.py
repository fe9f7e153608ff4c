"""Kills migrations: run as a program, which has no thread of an engine that a fork would lose.

Each round is a directory, a process that migrates it and is killed, one that looks at what is left,
and one that runs the same migration again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kstore_core import open_state, stores
from kstore_core.changelog import ChangelogDirectory, FileChangelog
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import InconsistentStateError
from kstore_core.maintenance.migrate import MigrateProgress, migrate
from kstore_core.state.migration_note import places
from kstore_core.testing.processes import in_fork
from kstore_core.types import ValueAndTimestamp

ROWS = 150
WAYS: dict[str, dict[str, Any]] = {
    "format": {"to": "plain", "lossy": True},
    "segments": {"to": "headers"},
    "engine": {"engine": "lmdb", "every_store": True},
    "dropping": {"to": "plain", "lossy": True, "drop_old": True},
    "history": {"to": stores.versioned_key_value("kv", 1_000_000)},
}
"""What a migration is called with. All of them are restarted by the same call."""

OLD = {
    "kv": stores.timestamped_key_value("kv"),
    "win": stores.timestamped_window("win", 1_000_000, 10, segment_interval_ms=100),
}
NEW = {
    "plain": stores.key_value("kv"),
    "timestamped_headers": stores.timestamped_window_with_headers("win", 10**6, 10, False, 100),
    "versioned": stores.versioned_key_value("kv", 1_000_000),
}
"""By their formats."""

LOG = "app-kv-changelog"


def store_of(way: str) -> str:
    return "win" if way == "segments" else "kv"


def prepare(root: Path) -> None:
    logs = ChangelogDirectory(root.parent / "logs", application_id="app", partition=0)
    with open_state(root, engine="rocksdb", changelog=logs) as state:
        keyed, windows = state.open(OLD["kv"]), state.open(OLD["win"])
        for number in range(ROWS):
            record = ValueAndTimestamp(b"%d" % number, number)
            keyed.put(b"%04d" % number, record)
            windows.put(b"k", record, window_start=number)
        state.commit({("in", 0): 3})


def check(root: Path, way: str, *, done: bool) -> bool:
    """Whether the stores are the old ones or the new ones; False where they may not be opened."""
    wanted = [b"%d" % number for number in range(ROWS)]
    try:
        with open_state(root, read_only=True) as state:
            assert state.offsets("kv")["in", 0] == state.offsets("win")["in", 0] == 3
            assert state.offsets("kv")[LOG, 0] == ROWS + 1  # behind two marks
            kinds = dict(OLD)
            for name in state.stores():
                after = state.stored_spec(name).format
                if after != OLD[name].format:
                    kinds[name] = NEW[after.name]
                if done and name == store_of(way) and way != "engine":
                    assert after != OLD[name].format
            assert sorted(state.stores()) == ["kv", "win"], state.stores()
            if done and way == "engine":
                assert state.engine.name == "lmdb"
            for spec in kinds.values():
                rows = [value for _, value in state.open(spec).all()]
                assert [getattr(value, "value", value) for value in rows] == wanted, spec
    except InconsistentStateError as error:
        if done or "Finish the migration with: kstore migrate" not in str(error):
            raise
        return False
    return True


def killed(work: Callable[[], None], after_s: float | None) -> bool:
    """Run in a fork, and kill it some time later, if it does not do so itself; was it killed?"""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - nothing of the parent may run in it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if after_s is not None:
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


def run(root: Path, way: str, listener: Callable[[MigrateProgress], object] | None = None) -> None:
    with FileChangelog(root.parent / "logs", LOG, read_only=True) as log:
        more = {"from_log": log} if way == "history" else {}
        migrate(root, store_of(way), **WAYS[way], **more, on_progress=listener)


def round_of(root: Path, way: str, work: Callable[[], None], after_s: float | None) -> bool | None:
    """One round; whether the killed one left stores that open, None where it was not killed."""
    template = root.parent / "template"
    if not template.exists():
        in_fork(lambda: prepare(template))
    shutil.copytree(template, root)
    was_killed = killed(work, after_s)
    told = root.parent / "opens"
    in_fork(lambda: told.write_text(str(check(root, way, done=not was_killed))))
    opens = told.read_text() == "True"
    in_fork(lambda: run(root, way))
    in_fork(lambda: told.write_text(str(check(root, way, done=True))))
    left = places(root)
    assert not left.plan.exists()
    assert not left.new.exists()
    assert left.home.exists() != (way == "dropping")
    shutil.rmtree(root)
    return opens if was_killed else None


class Stopper:
    """Dies at the first step that is not one of those before."""

    def __init__(self, root: Path, before: int) -> None:
        self.told = root.parent / "step"
        self.left = before
        self.seen: set[str] = set()

    def __call__(self, progress: MigrateProgress) -> None:
        name = f"{progress.store} {progress.step}"
        if name not in self.seen:
            self.seen.add(name)
            self.left -= 1
            if self.left < 0:
                self.told.write_text(name)
                os.kill(os.getpid(), signal.SIGKILL)


def at_each_step(root: Path, way: str) -> list[tuple[str, bool]]:
    """Kill at the first, the second and so on of what is told; the steps, and what they left."""
    steps: list[tuple[str, bool]] = []
    while True:
        stopper = Stopper(root, len(steps))
        opens = round_of(root, way, partial(run, root, way, stopper), None)
        if opens is None:
            return steps
        steps.append((stopper.told.read_text(), opens))


def at_random(root: Path, way: str, rounds: int, seed: int) -> int:
    """Kill at random times, until one was killed before it was done; how many were."""
    chosen = random.Random(seed)
    count, longest, done = 0, 0.2, 0
    while done < rounds or (count == 0 and done < 10 * rounds):
        done += 1
        after_s = chosen.uniform(0, longest)
        opens = round_of(root, way, partial(run, root, way), after_s)
        if opens is None:
            longest = max(0.02, longest * 0.8)
        count += opens is not None
    return count


if __name__ == "__main__":
    for engine in ("rocksdb", "lmdb"):
        engine_class(engine)  # else each fork would import it
    how, root, way = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if how == "steps":
        for step, opens in at_each_step(root, way):
            sys.stdout.write(f"{step}\t{opens}\n")
    else:
        sys.stdout.write(f"{at_random(root, way, int(sys.argv[4]), seed=int(sys.argv[5]))}\n")
