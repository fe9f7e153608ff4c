"""Compare kstore with Kafka Streams: the same work, in turns, on one machine.

Run ``python -m asv_benchmarks.peer`` in the repository. The run needs a JDK, Maven, and a machine
that does no other work. It takes about 15 minutes for 1,000,000 records and two rounds. The exit
status is 1 if a ratio is below its goal.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from asv_benchmarks.pages import machine, placed
from asv_benchmarks.peer import tables
from asv_benchmarks.peer.goals import BOTH_LEVELS, GROUPS
from asv_benchmarks.peer.jvm import PeerUnavailableError, compiled
from asv_benchmarks.peer.results import Measured, best_of, own_command, results_of

PAGE = Path(__file__).parents[2] / "docs" / "peer.md"
WARM_UP = 200_000
RECORDS = (100_000, 1_000_000, 10_000_000)
VERSIONS = ((10, 5), (100, 5), (1000, 5), (5, 5), (50, 50), (500, 500))
"""Pairs of the versions of each key and the segments, for reads as of a time.

In the last three pairs, each key has one version per segment.
"""


def compare(java: list[str], arguments: argparse.Namespace, scratch: Path) -> tuple[str, int]:
    """Return the table of the operations, and the number of operations that miss their goal."""
    rounds: dict[str, list[Measured]] = defaultdict(list)
    count = arguments.count
    for _ in range(arguments.rounds):
        for group in arguments.groups or GROUPS:
            command = [*java, group, str(count), str(min(count, WARM_UP))]
            rounds["kafka"].append(results_of(command, scratch))
            command = own_command(group, arguments.engine, "changelog", count)
            rounds["kstore"].append(results_of(command, scratch))
            if group in BOTH_LEVELS:
                command = own_command(group, arguments.engine, "process", count)
                rounds["default"].append(results_of(command, scratch))
    kafka, kstore = best_of(rounds["kafka"]), best_of(rounds["kstore"])
    table = tables.operations(kafka, kstore, best_of(rounds["default"]))
    return table, tables.missed(kafka, kstore)


def scale(java: list[str], arguments: argparse.Namespace, scratch: Path) -> str:
    """Return the tables of the growth of times."""
    kafka: Measured = {}
    kstore: Measured = {}
    counts = [count for count in RECORDS if count <= arguments.most]
    in_all = min(300_000, arguments.most)
    for count in counts:
        kafka |= results_of([*java, "records", str(count), str(min(count, WARM_UP))], scratch)
        kstore |= results_of(own_command("records", arguments.engine, "changelog", count), scratch)
    for per_key, segments in VERSIONS:
        shape = [str(per_key), str(segments)]
        kafka |= results_of([*java, "versions", str(in_all), "50000", *shape], scratch)
        command = own_command("versions", arguments.engine, "changelog", in_all, per_key, segments)
        kstore |= results_of(command, scratch)
    return (
        f"{tables.records(kafka, kstore, counts)}\n\n"
        f"A read as of a time, in a store of {in_all:,} versions:\n\n"
        f"{tables.versions(kafka, kstore, VERSIONS)}"
    )


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser("python -m asv_benchmarks.peer", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all if none is given")
    parser.add_argument("--rounds", type=int, default=2, help="the best round counts")
    parser.add_argument("-n", "--count", type=int, default=1_000_000, help="records")
    parser.add_argument("--engine", default="rocksdb")
    parser.add_argument("--scale", action="store_true", help="measure how cost grows instead")
    parser.add_argument("--most", type=int, default=RECORDS[-1], help="records of --scale")
    parser.add_argument("--write", action="store_true", help="write the tables to docs/peer.md")
    arguments = parser.parse_args()
    for group in arguments.groups:
        if group not in GROUPS:
            parser.error(f"no group has the name {group!r}; the groups are {', '.join(GROUPS)}")
    return arguments


def main() -> int:
    """Run the comparison, and return the exit status."""
    arguments = parsed()
    work = Path(tempfile.gettempdir()) / "kstore-peer"
    work.mkdir(exist_ok=True)
    try:
        java = compiled(work)
    except PeerUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    count = 0
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        if arguments.scale:
            name, found = "scale", scale(java, arguments, Path(scratch))
        else:
            name = "operations"
            found, count = compare(java, arguments, Path(scratch))
            found = (
                f"The run used Python {platform.python_version()}, {machine()}. It used "
                f"{arguments.count:,} records. A ratio below its goal is bold.\n\n{found}"
            )
    if arguments.write:
        PAGE.write_text(placed(PAGE.read_text("utf-8"), found, name), "utf-8")
    sys.stdout.write(f"{found}\n")
    if not arguments.scale:
        sys.stdout.write(f"\n{count} below their goal\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
