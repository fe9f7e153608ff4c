"""The program ``python -m kstore_core.testing.killer``, which kills many writers."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from kstore_core.discovery.registry import make_engine
from kstore_core.testing.killer.combinations import combination, combinations
from kstore_core.testing.killer.killing import Killer, Tally
from kstore_core.testing.rounds import new_parser, parse, print_counts, print_failure

_MODULE = "kstore_core.testing.killer"
_KILLS_PER_DIRECTORY = 10


def main(arguments: list[str] | None = None) -> int:
    """Kill writers, print the counts, and return the exit code."""
    description = "Kill writers, and compare the stores that they leave with the promises."
    parser = new_parser(_MODULE, description, "kills", 2000)
    asked = parse(parser, arguments, ["lmdb", "rocksdb"])
    generator = random.Random(asked.seed)
    chosen = [combination(asked.combination)] if asked.combination else combinations()
    turns = [(engine, one) for engine in asked.engine for one in chosen]
    tallies: dict[str, Tally] = defaultdict(Tally)
    begun, left, number, failed = time.monotonic(), asked.rounds, 0, False
    while left > 0:
        if number % len(turns) == 0:
            generator.shuffle(turns)
        engine, one = turns[number % len(turns)]
        seed = asked.seed + number
        root = Path(tempfile.mkdtemp(prefix="kstore-killer-", dir=asked.dir))
        killer = Killer(partial(make_engine, engine, asked.options), one, root, seed)
        try:
            tally = killer.run(min(_KILLS_PER_DIRECTORY, left))
        except Exception:  # noqa: BLE001 - any failure is printed
            options = {"engine": engine, "combination": one, "seed": seed}
            repeated = {**options, "rounds": _KILLS_PER_DIRECTORY}
            print_failure(_MODULE, asked, repeated.items())
            sys.stdout.write("(the time of a kill varies from run to run: give more rounds)\n")
            failed = True
            break
        shutil.rmtree(root)
        tallies[f"{engine} {one}"] += tally
        left -= tally.kills
        number += 1
    print_counts(tallies, sum(tallies.values(), Tally()), time.monotonic() - begun)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
