"""The command line and the counts that the killer and the interrupter share."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from operator import add
from typing import Any, Self

__all__ = ["Counts", "new_parser", "parse", "print_counts", "print_failure"]


@dataclass
class Counts:
    """The base class of dataclasses whose fields are counts. Two objects can be added."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, astuple(self), astuple(other)))


def new_parser(module: str, description: str, unit: str, rounds: int) -> argparse.ArgumentParser:
    """Return a parser of the options that the killer and the interrupter share.

    ``unit`` is the name of the counted events in the help texts.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"number of {unit}")
    parser.add_argument("--seed", type=int, default=1, help=f"seed of the changes and the {unit}")
    parser.add_argument("--engine", action="append", help="repeatable; default: all that can run")
    parser.add_argument("--options", type=json.loads, help="options of the engine, as JSON")
    parser.add_argument("--combination", help="shape-level-layers-staging; default: all in turn")
    parser.add_argument("--dir", help="parent of the state directories; failed ones remain")
    return parser


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, engines: list[str]
) -> argparse.Namespace:
    """Return the parsed arguments. If they name no engine, use ``engines``."""
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error(f"--rounds must be 1 or more, not {parsed.rounds}")
    parsed.engine = parsed.engine or engines
    return parsed


def print_failure(
    module: str, parsed: argparse.Namespace, options: Iterable[tuple[str, object]]
) -> None:
    """Print the current exception, and the command that runs the failed round again."""
    words = [f"--{name} {value}" for name, value in options]
    if parsed.options is not None:
        words.append(f"--options {json.dumps(parsed.options)!r}")
    command = f"python -m {module} {' '.join(words)}"
    sys.stdout.write(f"{traceback.format_exc()}\nagain: {command}\n")


def print_counts(counts: Mapping[str, Any], total: Any, seconds: float) -> None:
    """Print one line of counts for each name, and then the totals."""
    names = [field.name for field in fields(total)]
    width = max(map(len, [*counts, "all"]))
    sys.stdout.write(f"{'':{width}}  {'  '.join(names)}\n")
    for name, one in [*sorted(counts.items()), ("all", total)]:
        columns = zip(names, astuple(one), strict=True)
        numbers = "  ".join(f"{count:>{len(column)}}" for column, count in columns)
        sys.stdout.write(f"{name:{width}}  {numbers}\n")
    sys.stdout.write(f"{astuple(total)[0]} {names[0]} in {seconds:.0f} s\n")
