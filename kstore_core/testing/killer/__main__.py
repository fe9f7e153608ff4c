"""``python -m kstore_core.testing.killer``: thousands of kills, counted by combination."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path

from kstore_core.discovery.registry import make_engine
from kstore_core.testing.killer import Killer, Tally, combination, combinations

_TOGETHER = 10
"""How many kills one directory sees."""


def main(arguments: list[str] | None = None) -> int:
    """Kill, tell what came of it, and return the status for the shell."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.rounds < 1:
        parser.error(f"{asked.rounds} rounds would show nothing; give 1 or more")
    chosen = [combination(asked.combination)] if asked.combination else combinations()
    engines = asked.engine or ["lmdb", "rocksdb"]
    generator = random.Random(asked.seed)
    turns = [(engine, one) for engine in engines for one in chosen]
    tallies: dict[str, Tally] = defaultdict(Tally)
    begun, left, number = time.monotonic(), asked.rounds, 0
    while left > 0:
        if number % len(turns) == 0:
            generator.shuffle(turns)
        engine, one = turns[number % len(turns)]
        seed = asked.seed + number
        root = Path(tempfile.mkdtemp(prefix="kstore-killer-", dir=asked.dir))
        killer = Killer(partial(make_engine, engine, asked.options), one, root, seed)
        try:
            tally = killer.run(min(_TOGETHER, left))
        except Exception:  # noqa: BLE001 - whatever it is, it is told
            sys.stdout.write(
                f"{traceback.format_exc()}\nagain: python -m kstore_core.testing.killer "
                f"--engine {engine} --combination {one} --seed {seed} --rounds {_TOGETHER}"
                f"{'' if asked.options is None else f' --options {json.dumps(asked.options)!r}'}\n"
                "(when a writer is killed depends on the machine, too: say more rounds)\n"
            )
            _tell(tallies, time.monotonic() - begun)
            return 1
        shutil.rmtree(root)
        tallies[f"{engine} {one}"] += tally
        left -= tally.kills
        number += 1
    _tell(tallies, time.monotonic() - begun)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kstore_core.testing.killer",
        description="Kill writers, and hold what they leave against what is promised.",
    )
    parser.add_argument("--rounds", type=int, default=2000, help="how many writers are killed")
    parser.add_argument("--seed", type=int, default=1, help="of what is written and when who dies")
    parser.add_argument("--engine", action="append", help="again for more; lmdb and rocksdb")
    parser.add_argument("--options", type=json.loads, help="of the engine, as JSON")
    parser.add_argument("--combination", help="shape-level-layers-staging; else all in turn")
    parser.add_argument("--dir", help="where state directories go; a failing one stays")
    return parser


def _tell(tallies: Mapping[str, Tally], seconds: float) -> None:
    """A line for each combination, and their sum."""
    names = [field.name for field in fields(Tally)]
    total = sum(tallies.values(), Tally())
    width = max(map(len, [*tallies, "all"]))
    sys.stdout.write(f"{'':{width}}  {'  '.join(names)}\n")
    for name, tally in [*sorted(tallies.items()), ("all", total)]:
        counts = (f"{count:>{len(n)}}" for n, count in zip(names, astuple(tally), strict=True))
        sys.stdout.write(f"{name:{width}}  {'  '.join(counts)}\n")
    sys.stdout.write(f"{total.kills} kills in {seconds:.0f} s\n")


if __name__ == "__main__":
    sys.exit(main())
