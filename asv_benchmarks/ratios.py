"""Measure every ratio that the project promises: ``python asv_benchmarks/ratios.py [ENGINE …]``.

The memory engine has no binding but a dict. So its key-value stores have absolute times as limits.
Its window and session stores are compared with a dict and a sorted list of keys. For window and
session stores, the bare engine puts each row in a transaction of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.commit import CommitWorkload
from benchmarks.imports import import_seconds
from benchmarks.key_value import in_turn_ratio
from benchmarks.layers import HotKeys
from benchmarks.many_segments import ManySegments
from benchmarks.restore import RestoreWorkload
from benchmarks.segmented import KINDS, make_workload
from benchmarks.upgrade import PROBES, UpgradeWorkload
from benchmarks.versioned import put_ratio
from benchmarks.workloads import (
    ENGINES,
    KEY_VALUE,
    VERSIONED,
    KeyValueWorkload,
    VersionedWorkload,
    ratio,
    seconds,
)

COUNT = 100_000
SEGMENTED_KEYS = 6000
ROUNDS = 7


def show(what: str, measured: float, limit: float, unit: str = "", *, least: bool = False) -> None:
    met = measured >= limit if least else measured <= limit
    bound = f"at {'least' if least else 'most'} {limit}{unit}"
    sys.stdout.write(f"{what:48} {measured:7.2f}{unit}   {bound}{'' if met else '   MISSED'}\n")
    sys.stdout.flush()


def microseconds(work: Callable[[], object], between: Callable[[], object]) -> float:
    """Return the least time per operation in several rounds of ``work``, in µs."""
    best = float("inf")
    for _ in range(ROUNDS):
        best = min(best, seconds(work))
        between()
    return best / COUNT * 1e6


def memory(work: KeyValueWorkload, name: str) -> None:
    def nothing() -> None: ...

    show(f"memory {name}: put", microseconds(work.put, work.state.commit), 1.2, " us")
    show(f"memory {name}: get", microseconds(work.get, nothing), 0.9, " us")


def lmdb(work: KeyValueWorkload, name: str) -> None:
    show(
        f"lmdb {name}: put, over one transaction",
        ratio(work.put_and_commit, work.raw_put),
        1.5,
    )
    show(
        f"lmdb {name}: put, over a transaction each",
        ratio(work.put_and_commit, work.raw_put_each, 2),
        0.9,
    )
    show(f"lmdb {name}: get", ratio(work.get, work.raw_get, ROUNDS), 1.35)
    show(f"lmdb {name}: scan", ratio(work.scan, work.raw_scan, ROUNDS), 1.8)


def rocksdb(work: KeyValueWorkload, name: str) -> None:
    show(f"rocksdb {name}: get", ratio(work.get, work.raw_get), 1.25)
    show(f"rocksdb {name}: scan", ratio(work.scan, work.raw_scan), 1.6)
    show(f"rocksdb {name}: put, commit included", ratio(work.put_and_commit, work.raw_put), 0.8)
    show(f"rocksdb {name}: put and scan in turn", in_turn_ratio(work), 1.4)


def upgrade(engine: str) -> None:
    work = UpgradeWorkload(engine, COUNT)
    for probes in PROBES:
        show(f"{engine}: get in two formats, {probes} row", work.get_ratio(probes), 2.2)
    drained = work.drain() / 1e6
    show(f"{engine}: upgrade", drained, 0.3, " M rows/s", least=True)
    work.close()


def layers(engine: str, name: str) -> None:
    work = HotKeys(engine, name)
    if engine == "memory":  # its calls are so fast that the added time is visible
        for operation in ("get", "put"):
            added = work.metered_nanoseconds(operation)
            show(f"{engine} {name}: counting a {operation}", added, 60, " ns")
    else:
        times = work.times_faster(1 if engine == "lmdb" else 3)
        show(f"{engine} {name}: hot keys, cached over raw", times, 6, " times", least=True)
    work.close()


def segmented(engine: str, kind: str) -> None:
    """Measure a window or session store, compared with the same rows in bare databases."""
    work = make_workload(engine, kind, SEGMENTED_KEYS)
    sessions = kind.startswith("session")
    show(f"{engine} {kind}: {'fetch_session' if sessions else 'fetch_one'}", work.get_ratio(), 1.3)
    several = "a key's five sessions" if sessions else "a key's 17 windows"
    show(f"{engine} {kind}: {several}", work.fetch_ratio(), 1.6)
    show(f"{engine} {kind}: all", work.all_ratio(), 1.8)
    show(f"{engine} {kind}: put and fetch in turn", work.in_turn_ratio(), 1.4)
    work.state.commit()
    show(f"{engine} {kind}: put, commit included", work.put_ratio(each=True), 1.0)
    work.close()


def many_segments(engine: str) -> None:
    work = ManySegments(engine)
    show(f"{engine}: commit of 500 new segments", work.commit_seconds / work.bare_seconds(), 1.3)
    opened, fetched, most = work.open_and_fetch()
    show(f"{engine}: open with 500 segments", opened * 1000, 200, " ms")
    show(f"{engine}: cold fetch of three segments", fetched * 1000, 60, " ms")
    show(f"{engine}: file descriptors", most, 1000)
    work.close()


COMMIT_OVER_BATCH = {"lmdb": {1: 7, 1000: 1.3}, "rocksdb": {1: 5.5, 1000: 2.5}}


def commit(engine: str) -> None:
    """Measure commits of rows and an offset, compared with the binding's batch of them."""
    for rows, limit in COMMIT_OVER_BATCH[engine].items():
        work = CommitWorkload(engine, "process", rows)
        show(f"{engine} headers: commit, rows: {rows}", work.over_bare(budget_s=1), limit)
        work.close()


RESTORE_TIMES_FASTER = {"rocksdb": 3, "lmdb": 1.3}
RESTORE_COUNT = 1_000_000
SCALED_RAW_PUTS = 2
"""The least factor between restores of versions and raw puts.

It stands for 500,000 records per second if a raw put takes 4 µs.
"""


def restore(engine: str) -> None:
    """Measure restores into an empty store, compared with a loop of raw puts.

    The values have 100 bytes and three headers.
    """
    work = RestoreWorkload(engine, KEY_VALUE["headers"]("s"), RESTORE_COUNT)
    limit = RESTORE_TIMES_FASTER[engine]
    show(f"{engine} headers: restore, over raw puts", work.times_faster(), limit, least=True)
    work.close()
    if engine == "rocksdb":
        spec = VERSIONED["versioned_headers"]("s", 86_400_000)
        work = RestoreWorkload(engine, spec, RESTORE_COUNT)
        faster = work.times_faster()
        show(f"{engine} versions: restore, over raw puts", faster, SCALED_RAW_PUTS, least=True)
        work.close()


KEY_VALUE_TARGETS = {"memory": memory, "lmdb": lmdb, "rocksdb": rocksdb}


def main() -> None:
    imported = min(import_seconds("kstore_core") for _ in range(10)) * 1000
    show("import kstore_core", imported, 60, " ms")
    for engine in sys.argv[1:] or ENGINES:
        for name in KEY_VALUE:
            work = KeyValueWorkload(engine, name, COUNT)
            KEY_VALUE_TARGETS[engine](work, name)
            work.close()
            layers(engine, name)
        if engine in COMMIT_OVER_BATCH:
            commit(engine)
        upgrade(engine)
        for kind in KINDS:
            segmented(engine, kind)
        if engine in RESTORE_TIMES_FASTER:
            restore(engine)
        if engine != "rocksdb":
            continue
        many_segments(engine)
        for name in VERSIONED:
            versioned = VersionedWorkload(engine, name, COUNT)
            show(
                f"{engine} {name}: get as of",
                ratio(versioned.get_as_of, versioned.raw_get_as_of),
                1.3,
            )
            show(f"{engine} {name}: put, commit included", put_ratio(versioned), 1.3)
            versioned.close()


if __name__ == "__main__":
    main()
