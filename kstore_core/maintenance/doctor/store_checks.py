"""The checks of the metadata of stores.

A subprocess reads the metadata, because damaged data may crash the process that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.hints import command
from kstore_core.maintenance.doctor.environment import at
from kstore_core.maintenance.verify import Finding
from kstore_core.maintenance.verify.protocol import Job, Survey, Unit
from kstore_core.maintenance.verify.subprocesses import Child, DiedError
from kstore_core.offsets.entries import Partition

__all__ = ["differing_offsets", "in_stores", "surveys"]

_PATIENCE_S = 120.0


def surveys(
    engine: Engine, root: Path, stores: Iterable[str]
) -> Iterator[tuple[str, Survey | None, list[Finding]]]:
    """Yield the name of each store, its survey, and its findings.

    The survey contains the kind and the metadata of the store. It is None if the subprocess crashed
    or could not read the metadata.
    """
    with ExitStack() as stack:
        child: Child | None = None
        for store in stores:
            findings: list[Finding] = []
            if child is None:
                job = Job(engine, root, None, 1, None)
                child = stack.enter_context(Child(job, _PATIENCE_S))
            try:
                found = child.do(Unit("survey", store), partial(_add_finding, findings))
            except DiedError as error:
                child = None
                why = f"the engine died while it read the store: {error}"
                remedy = f"list the damage with: {command('verify', root, store)}"
                yield store, None, [at("corrupt", "died", why, remedy, store)]
            else:
                yield store, found, findings


def _add_finding(findings: list[Finding], name: str, content: Finding) -> None:
    if name == "finding":
        findings.append(content)


def in_stores(root: Path, surveyed: Mapping[str, Survey]) -> Iterator[Finding]:
    """Report unreadable stores, missing specs, unfinished upgrades, and differing offsets."""
    for store, found in surveyed.items():
        verify = f"list the damage with: {command('verify', root, store)}"
        if not found.read:
            yield at("corrupt", "unreadable", "no part of the store can be read", verify, store)
            continue
        if found.record.spec is None:
            yield at(
                "note",
                "spec",
                "the store has no readable spec, because Kafka Streams wrote the store or the spec "
                "is damaged. Pass the spec when you open the store",
                "",
                store,
            )
        for older, count in found.older.items():
            why = f"about {count} rows are still in the format {older}"
            yield at("note", "upgrade", why, command("upgrade", root, store), store)
    offsets = {store: found.record.known_offsets for store, found in surveyed.items() if found.read}
    yield from differing_offsets(root, offsets)


def differing_offsets(
    root: Path, offsets: Mapping[str, Mapping[Partition, int]]
) -> Iterator[Finding]:
    """Report stores with lower offsets than other stores, and stores without offsets."""
    known = {partition for found in offsets.values() for partition in found}
    for topic, partition in sorted(known):
        reached = {
            store: found[topic, partition]
            for store, found in offsets.items()
            if (topic, partition) in found
        }
        behind = [store for store, offset in reached.items() if offset < max(reached.values())]
        if behind:
            why = (
                f"the stores contain {topic}-{partition} up to different offsets ("
                + ", ".join(f"{store} up to {offset}" for store, offset in sorted(reached.items()))
                + f"), so a replay begins after offset {min(reached.values())}"
            )
            yield at("note", "offsets", why, "", behind[0])
    silent = sorted(store for store, found in offsets.items() if not found)
    if known and silent:
        why = (
            f"there are no offsets in: {', '.join(silent)}. So a replay begins at the start of the "
            "input"
        )
        yield at(
            "finding",
            "offsets",
            why,
            f"restore the store or commit it; list the offsets with: {command('inspect', root)}",
            silent[0],
        )
