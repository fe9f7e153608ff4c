"""Run one workload on kstore.

The arguments are the workload, the engine, the durability, and the number of records. The workload
``versions`` has two more arguments: the versions of each key, and the number of segments.
"""

from __future__ import annotations

import sys

from . import codec, key_value, memory, restore, scale, session, versioned, window
from .data import Run

WORKLOADS = {
    "kv": key_value.run,
    "versioned": versioned.run,
    "window": window.run,
    "session": session.run,
    "codec": codec.run,
    "inmem": memory.run,
    "restore": restore.run,
    "records": scale.records,
    "versions": scale.versions,
}


def main(name: str, engine: str, durability: str, count: str, *more: str) -> None:
    """Run the workload."""
    WORKLOADS[name](Run(engine, durability, int(count)), *map(int, more))


if __name__ == "__main__":
    main(*sys.argv[1:])
