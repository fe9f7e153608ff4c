"""The program ``python -m kstore_core.testing.interrupter``, which interrupts many calls."""

from __future__ import annotations

import faulthandler
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from kstore_core.discovery.registry import make_engine
from kstore_core.testing.interrupter.aims import AIMS
from kstore_core.testing.interrupter.interrupting import Interrupter, Tally, WedgedError
from kstore_core.testing.interrupter.operations import OPERATIONS, operations_of
from kstore_core.testing.killer.combinations import Combination, combination, combinations
from kstore_core.testing.rounds import new_parser, parse, print_counts, print_failure

_MODULE = "kstore_core.testing.interrupter"
_INTERRUPTS_PER_PATTERN = 6
"""The number of interrupts that use copies of the same state directory."""

_PATIENCE_S = 120


def main(arguments: list[str] | None = None) -> int:
    """Interrupt calls, print the counts, and return the exit code."""
    description = "Interrupt calls, and check that the process goes on as if nothing had happened."
    parser = new_parser(_MODULE, description, "interrupts", 1000)
    parser.add_argument("--operation", action="append", choices=[*OPERATIONS], help="default: all")
    parser.add_argument(
        "--aim", action="append", choices=[*AIMS, "raised"], help="default: step, entry and time"
    )
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    asked = parse(parser, arguments, ["memory", "lmdb", "rocksdb"])
    chosen = [combination(asked.combination)] if asked.combination else combinations()
    turns: dict[tuple[str, str], list[Combination]] = defaultdict(list)
    for engine in asked.engine:
        able = make_engine(engine, asked.options).capabilities
        for one in chosen:
            for operation in operations_of(one, able):
                if not asked.operation or operation in asked.operation:
                    turns[engine, operation].append(one)
    generator = random.Random(asked.seed)
    tallies: dict[str, Tally] = defaultdict(Tally)
    begun, left, number = time.monotonic(), asked.rounds, 0
    keys = sorted(turns)
    while left > 0:
        engine, operation = key = keys[number % len(keys)]
        one = generator.choice(turns[key])
        seed = asked.seed + number
        root = Path(tempfile.mkdtemp(prefix="kstore-interrupter-", dir=asked.dir))
        faulthandler.dump_traceback_later(_PATIENCE_S, exit=True, file=2)
        interrupter = Interrupter(
            partial(make_engine, engine, asked.options),
            one,
            operation,
            root,
            seed,
            tuple(asked.aim or AIMS),
        )
        try:
            interrupter.run(min(_INTERRUPTS_PER_PATTERN, left))
        except WedgedError:
            options = {"engine": engine, "combination": one, "operation": operation, "seed": seed}
            repeated = {**options, "rounds": _INTERRUPTS_PER_PATTERN}
            aims = [("aim", aim) for aim in asked.aim or ()]
            print_failure(_MODULE, asked, [*repeated.items(), *aims])
            if not asked.keep_going:
                left = 0
        else:
            shutil.rmtree(root, ignore_errors=True)
        finally:
            faulthandler.cancel_dump_traceback_later()
        tallies[f"{engine} {one.shape} {operation}"] += interrupter.tally
        left -= max(1, interrupter.tally.interrupts)
        number += 1
    total = sum(tallies.values(), Tally())
    print_counts(tallies, total, time.monotonic() - begun)
    return int(total.wedged > 0)


if __name__ == "__main__":
    sys.exit(main())
