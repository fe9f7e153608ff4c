"""Every ratio that the project promises, in one run: ``python asv_benchmarks/ratios.py``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.imports import import_seconds
from benchmarks.key_value import in_turn_ratio
from benchmarks.versioned import put_ratio
from benchmarks.workloads import KEY_VALUE, VERSIONED, KeyValueWorkload, VersionedWorkload, ratio

COUNT = 100_000


def show(what: str, measured: float, limit: float, unit: str = "") -> None:
    verdict = "" if measured <= limit else "   MISSED"
    sys.stdout.write(f"{what:48} {measured:7.2f}{unit}   at most {limit}{unit}{verdict}\n")
    sys.stdout.flush()


def main() -> None:
    imported = min(import_seconds("kstore_core") for _ in range(10)) * 1000
    show("import kstore_core", imported, 60, " ms")
    for engine in sys.argv[1:] or ["rocksdb"]:
        for name in KEY_VALUE:
            work = KeyValueWorkload(engine, name, COUNT)
            show(f"{engine} {name}: get", ratio(work.get, work.raw_get), 1.25)
            show(f"{engine} {name}: scan", ratio(work.scan, work.raw_scan), 1.6)
            show(
                f"{engine} {name}: put, commit included",
                ratio(work.put_and_commit, work.raw_put),
                0.8,
            )
            show(f"{engine} {name}: put and scan in turn", in_turn_ratio(work), 1.4)
            work.close()
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
