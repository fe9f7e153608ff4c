"""What stores say of themselves, asked by a child process, which damage may end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.hints import command
from kstore_core.maintenance.doctor.environment import at
from kstore_core.maintenance.verify import Finding
from kstore_core.maintenance.verify.child import Child, DiedError
from kstore_core.maintenance.verify.units import Job, Survey, Unit
from kstore_core.offsets import Partition

__all__ = ["differing_offsets", "in_stores", "surveys"]

_PATIENCE_S = 120.0


def surveys(
    engine: Engine, root: Path, stores: Iterable[str]
) -> Iterator[tuple[str, Survey | None, list[Finding]]]:
    """What each store says, None where that ends who asks; and what was found on the way."""
    with ExitStack() as stack:
        child: Child | None = None
        for store in stores:
            findings: list[Finding] = []
            if child is None:
                job = Job(engine, root, None, 1, None)
                child = stack.enter_context(Child(job, _PATIENCE_S))
            try:
                found = child.do(Unit("survey", store), partial(_told, findings))
            except DiedError as error:
                child = None
                why = f"the engine died reading it: {error}"
                remedy = f"see what is damaged with: {command('verify', root, store)}"
                yield store, None, [at("corrupt", "died", why, remedy, store)]
            else:
                yield store, found, findings


def _told(findings: list[Finding], name: str, content: Finding) -> None:
    if name == "finding":
        findings.append(content)


def in_stores(root: Path, said: Mapping[str, Survey]) -> Iterator[Finding]:
    """Descriptions that are missing, upgrades that are not finished, offsets that lag."""
    for store, found in said.items():
        verify = f"see what is damaged with: {command('verify', root, store)}"
        if not found.read:
            yield at("corrupt", "unreadable", "nothing of it can be read", verify, store)
            continue
        if found.record.spec is None:
            yield at(
                "note",
                "spec",
                "it keeps no spec, as Kafka Streams leaves it, or its spec is damaged; whoever "
                "opens it has to know what it is",
                "",
                store,
            )
        for older, count in found.older.items():
            why = f"about {count} rows are still in the format {older}"
            yield at("note", "upgrade", why, command("upgrade", root, store), store)
    offsets = {store: found.record.known_offsets for store, found in said.items() if found.read}
    yield from differing_offsets(root, offsets)


def differing_offsets(
    root: Path, offsets: Mapping[str, Mapping[Partition, int]]
) -> Iterator[Finding]:
    """Stores that contain less of a partition than others, or say nothing where others do."""
    known = {partition for said in offsets.values() for partition in said}
    for topic, partition in sorted(known):
        said = {
            store: found[topic, partition]
            for store, found in offsets.items()
            if (topic, partition) in found
        }
        behind = [store for store, offset in said.items() if offset < max(said.values())]
        if behind:
            why = (
                f"{topic}-{partition} is contained up to "
                + ", ".join(f"{offset} by {store}" for store, offset in sorted(said.items()))
                + f": a replay begins behind {min(said.values())}"
            )
            yield at("note", "offsets", why, "", behind[0])
    silent = sorted(store for store, found in offsets.items() if not found)
    if known and silent:
        why = f"{', '.join(silent)} keeps no offsets, so beside it nothing counts as contained"
        yield at(
            "finding",
            "offsets",
            why,
            f"restore or commit it; see: {command('inspect', root)}",
            silent[0],
        )
