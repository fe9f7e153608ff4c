"""The metadata of a store in all tasks, and the metadata that the new tasks get from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kstore_core.engine import Engine
from kstore_core.errors import StateError
from kstore_core.maintenance.finish_upgrade.finishing import databases
from kstore_core.maintenance.migrate.specs import spec_on_disk
from kstore_core.maintenance.rescale.tasks import Tasks
from kstore_core.offsets.entries import OPEN, STATUS, Partition, StoreRecord
from kstore_core.offsets.position import least_positions
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.state.contents import read_store
from kstore_core.tables import OFFSETS

__all__ = ["Inherited", "Source", "inherited", "input_offsets", "read_source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A store that all tasks have.

    Attributes
    ----------
    spec : StoreSpec
        The spec. Its serdes have the names of the stored serdes, but leave bytes unchanged.
    records : tuple of StoreRecord
        The metadata of the store in each task.
    """

    spec: StoreSpec
    records: tuple[StoreRecord, ...]

    @property
    def stored(self) -> StoredSpec:
        """The spec to store in the new tasks."""
        return StoredSpec.of(self.spec)


class Inherited(NamedTuple):
    """The metadata that a new task gets from the old tasks that have some of its keys."""

    offsets: Mapping[Partition, int]
    position: Mapping[str, Mapping[int, int]]
    notes: Mapping[str, bytes]


def read_source(tasks: Tasks, store: str, given: StoreSpec | None) -> Source:
    """Read the spec and the metadata of a store in all tasks.

    Raises
    ------
    SpecError
        A task has no stored spec and ``given`` is None, or ``given`` contradicts the store.
    StateError
        The tasks have different specs, or the program of a task did not close the store.
    """
    specs = [spec_on_disk(tasks.engine, at, store, given) for at in tasks.directories]
    records = tuple(read_store(tasks.engine, at, store, ()) for at in tasks.directories)
    if given is not None:  # A task without rows has no index rows, although the store has an index.
        indexed = any(spec.indexed for spec in specs)
        specs = [
            spec if record.spec is not None else replace(spec, indexed=indexed)
            for spec, record in zip(specs, records, strict=True)
        ]
    for at, spec, record in zip(tasks.directories, specs, records, strict=True):
        if spec.describe() != specs[0].describe():
            raise StateError(
                f"the store {store!r} has different specs in {at} and in {tasks.directories[0]}: "
                f"{spec.describe()} and {specs[0].describe()}. Run the application with its "
                "present specs, finish upgrades with kstore upgrade, and rescale again"
            )
        _check_closed(tasks.engine, at, store, record.spec)
    return Source(specs[0], records)


def _check_closed(engine: Engine, task: Path, store: str, stored: StoredSpec | None) -> None:
    """Raise a StateError if a database of the store has the status "open"."""
    for open_one in databases(engine, task, store, stored):
        with suppress(FileNotFoundError), closing(open_one(read_only=True)) as database:
            if OFFSETS not in database.namespaces():
                continue
            if database.namespace(OFFSETS).get(STATUS) == OPEN:
                raise StateError(
                    f"the store {store!r} in {task} was not closed, because its program runs or "
                    "was killed. The rows may be ahead of the offsets, and only a restart of the "
                    "program repairs this. Start the program, stop it, and rescale again"
                )


def input_offsets(store: str, record: StoreRecord) -> dict[Partition, int]:
    """Return the stored offsets without the offsets of the store's changelog.

    The changelog is recognised by its name, ``<application.id>-<store>-changelog``.
    """
    changelog = f"-{store}-changelog"
    return {at: o for at, o in record.known_offsets.items() if not at[0].endswith(changelog)}


def inherited(
    tasks: Tasks, source: Source, parents: Iterable[int], *, keep_offsets: bool
) -> Inherited:
    """Return the metadata of a new task that gets keys from the old tasks ``parents``.

    docs/decisions/commits/rescaled-tasks.md proves that the offsets are exact.

    Raises
    ------
    StateError
        The old tasks have different notes, or different input offsets if ``keep_offsets`` is True.
    """
    store = source.spec.name
    of_parents = {at: source.records[at] for at in parents}
    first = next(iter(of_parents))
    notes = of_parents[first].notes
    offsets = input_offsets(store, of_parents[first])
    for at, record in of_parents.items():
        here, there = tasks.directories[first], tasks.directories[at]
        for name in sorted({*notes, *record.notes}):
            if notes.get(name) != record.notes.get(name):
                raise StateError(
                    f"the note {name!r} of the store {store!r} differs in {here} and {there}, so "
                    "a new task with keys of both tasks could get only one of the two values. "
                    "Remove the note with a commit, or rescale to a multiple of the present number "
                    "of tasks"
                )
        if not keep_offsets:
            continue
        others = input_offsets(store, record)
        for topic, partition in sorted({*offsets, *others}):
            one, other = offsets.get((topic, partition)), others.get((topic, partition))
            if one != other:
                raise StateError(
                    f"the store {store!r} contains the partition {partition} of {topic!r} up to "
                    f"the offset {_worded(one)} in {here}, but up to {_worded(other)} in {there}. "
                    "A new task that gets keys of both tasks can have only one offset, so it would "
                    "lose or repeat records. Bring both tasks to the same offset, rescale to a "
                    "multiple of the present number of tasks, or leave out keep_offsets "
                    "(--keep-offsets on the command line)"
                )
    if not keep_offsets:
        return Inherited({}, {}, notes)
    position = least_positions(record.position for record in of_parents.values())
    return Inherited(offsets, position, notes)


def _worded(offset: int | None) -> str:
    return "none" if offset is None else str(offset)
