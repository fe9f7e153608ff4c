"""The tables of docs/peer.md."""

from __future__ import annotations

from collections.abc import Iterable

from asv_benchmarks.peer.goals import GOALS
from asv_benchmarks.peer.results import Measured

__all__ = ["missed", "operations", "records", "versions"]


def operations(kafka: Measured, kstore: Measured, default: Measured) -> str:
    """Return the table of all operations that both sides have measured.

    Parameters
    ----------
    kafka, kstore, default : dict
        The operations per second of Kafka Streams, of kstore at the durability ``"changelog"``, and
        of kstore at the default durability.
    """
    lines = [
        "| operation | Kafka Streams/s | kstore/s | ratio | goal | ratio with a write-ahead log |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for goal in GOALS:
        theirs, ours = kafka.get(goal.peer), kstore.get((goal.bench, goal.op))
        if theirs is None or ours is None:
            continue
        ratio = f"{ours / theirs:.2f}"
        ratio = ratio if ours / theirs >= goal.ratio else f"**{ratio}**"
        logged = default.get((goal.bench, goal.op)) if goal.op.startswith("put") else None
        lines.append(
            f"| {goal.what} | {theirs:,.0f} | {ours:,.0f} | {ratio} | {goal.ratio:.1f} | "
            f"{'' if logged is None else f'{logged / theirs:.2f}'} |"
        )
    return "\n".join(lines)


def missed(kafka: Measured, kstore: Measured) -> int:
    """Return the number of operations whose ratio is below their goal."""
    pairs = ((goal, kafka.get(goal.peer), kstore.get((goal.bench, goal.op))) for goal in GOALS)
    return sum(
        theirs is not None and ours is not None and ours / theirs < goal.ratio
        for goal, theirs, ours in pairs
    )


def records(kafka: Measured, kstore: Measured, counts: Iterable[int]) -> str:
    """Return the table of key-value stores with these numbers of records."""
    ways = {
        "put": "put, thousand per second",
        "get_hit": "get, thousand per second",
        "scan_all": "scan, thousand per second",
        "commit": "commit of the last rows, ms",
        "open": "open, ms",
        "disk": "files, MiB",
        "memory": "memory of the process, MiB",
    }
    counts = list(counts)
    lines = [
        "| " + " | ".join(["", "", *(f"{count:,} records" for count in counts)]) + " |",
        "|---|---" + "|---:" * len(counts) + "|",
    ]
    for op, what in ways.items():
        for side, measured in (("Kafka Streams", kafka), ("kstore", kstore)):
            per = 1000 if "thousand" in what else 1
            values = [measured[f"records {count}", op] / per for count in counts]
            cells = " | ".join(f"{value:,.0f}" for value in values)
            lines.append(f"| {what} | {side} | {cells} |")
    return "\n".join(lines)


def versions(kafka: Measured, kstore: Measured, each: Iterable[tuple[int, int]]) -> str:
    """Return the table of reads as of a time, by the versions of a key and the segments."""
    lines = [
        "| versions of each key | segments | Kafka Streams, µs | kstore, µs | ratio |",
        "|---:|---:|---:|---:|---:|",
    ]
    for per_key, segments in each:
        name = f"versions {per_key} segments {segments}", "as_of"
        lines.append(
            f"| {per_key:,} | {segments} | {kafka[name]:.1f} | {kstore[name]:.1f} | "
            f"{kafka[name] / kstore[name]:.2f} |"
        )
    return "\n".join(lines)
