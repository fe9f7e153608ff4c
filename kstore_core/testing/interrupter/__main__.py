"""``python -m kstore_core.testing.interrupter``: thousands of interrupts, counted."""

from __future__ import annotations

import argparse
import faulthandler
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
from kstore_core.testing.interrupter import (
    OPERATIONS,
    Interrupter,
    Tally,
    WedgedError,
    operations_of,
)
from kstore_core.testing.interrupter.aims import AIMS
from kstore_core.testing.killer import Combination, combination, combinations

_TOGETHER = 6
"""How many interrupts one pattern of a directory serves."""

_PATIENCE_S = 120


def main(arguments: list[str] | None = None) -> int:
    """Interrupt, tell what came of it, and return the status for the shell."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.rounds < 1:
        parser.error(f"{asked.rounds} rounds would show nothing; give 1 or more")
    engines = asked.engine or ["memory", "lmdb", "rocksdb"]
    chosen = [combination(asked.combination)] if asked.combination else combinations()
    turns = [
        (engine, one, operation)
        for engine in engines
        for one in chosen
        for operation in operations_of(one, make_engine(engine, asked.options).capabilities)
        if not asked.operation or operation in asked.operation
    ]
    generator = random.Random(asked.seed)
    by_operation: dict[tuple[str, str], list[tuple[str, Combination, str]]] = defaultdict(list)
    for turn in turns:
        by_operation[turn[0], turn[2]].append(turn)
    tallies: dict[str, Tally] = defaultdict(Tally)
    wedged: dict[str, int] = defaultdict(int)
    begun, left, number = time.monotonic(), asked.rounds, 0
    keys = sorted(by_operation)
    while left > 0:
        engine, one, operation = generator.choice(by_operation[keys[number % len(keys)]])
        seed = asked.seed + number
        root = Path(tempfile.mkdtemp(prefix="kstore-interrupter-", dir=asked.dir))
        faulthandler.dump_traceback_later(_PATIENCE_S, exit=True, file=2)
        name = f"{engine} {one.shape} {operation}"
        interrupter = Interrupter(
            partial(make_engine, engine, asked.options),
            one,
            operation,
            root,
            seed,
            tuple(asked.aim or AIMS),
        )
        try:
            interrupter.run(min(_TOGETHER, left))
        except WedgedError:
            wedged[name] += 1
            sys.stdout.write(
                f"{traceback.format_exc()}\nagain: python -m kstore_core.testing.interrupter "
                f"--engine {engine} --combination {one} --operation {operation} --seed {seed} "
                f"--rounds {_TOGETHER}"
                f"{''.join(f' --aim {aim}' for aim in asked.aim or ())}"
                f"{'' if asked.options is None else f' --options {json.dumps(asked.options)!r}'}\n"
            )
            if not asked.keep_going:
                break
        else:
            shutil.rmtree(root, ignore_errors=True)
        finally:
            faulthandler.cancel_dump_traceback_later()
        tallies[name] += interrupter.tally
        left -= max(1, interrupter.tally.interrupts)
        number += 1
    _tell(tallies, wedged, time.monotonic() - begun)
    return 1 if wedged else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kstore_core.testing.interrupter",
        description="Interrupt calls, and see that the process goes on as if it had not been.",
    )
    parser.add_argument("--rounds", type=int, default=1000, help="how many interrupts there are")
    parser.add_argument("--seed", type=int, default=1, help="of what is written and of the moments")
    parser.add_argument("--engine", action="append", help="again for more; all three")
    parser.add_argument("--options", type=json.loads, help="of the engine, as JSON")
    parser.add_argument("--combination", help="shape-level-layers-staging; else all in turn")
    parser.add_argument("--operation", action="append", choices=[*OPERATIONS], help="else all")
    parser.add_argument(
        "--aim", action="append", choices=[*AIMS, "raised"], help="else step and time"
    )
    parser.add_argument("--dir", help="where directories go; a failing one stays")
    parser.add_argument("--keep-going", action="store_true", help="after one that is wedged")
    return parser


def _tell(tallies: Mapping[str, Tally], wedged: Mapping[str, int], seconds: float) -> None:
    """A line for each engine, shape and operation, and their sum."""
    names = [field.name for field in fields(Tally)]
    total = sum(tallies.values(), Tally())
    width = max(map(len, [*tallies, "all"]))
    sys.stdout.write(f"{'':{width}}  {'  '.join([*names, 'wedged'])}\n")
    for name, tally in [*sorted(tallies.items()), ("all", total)]:
        failed = sum(wedged.values()) if name == "all" else wedged.get(name, 0)
        columns = zip([*names, "wedged"], [*astuple(tally), failed], strict=True)
        counts = "  ".join(f"{count:>{len(column)}}" for column, count in columns)
        sys.stdout.write(f"{name:{width}}  {counts}\n")
    sys.stdout.write(f"{total.interrupts} interrupts in {seconds:.0f} s\n")


if __name__ == "__main__":
    sys.exit(main())
