"""The steps of one migration: write the plan, copy the stores, and replace the old stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

from kstore_core.changelog import Changelog
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Engine
from kstore_core.errors import FormatDowngradeError, SpecError, StateError, UnsupportedError
from kstore_core.formats import ValueFormat, named
from kstore_core.hints import command
from kstore_core.maintenance.finish_upgrade.finishing import databases
from kstore_core.maintenance.migrate.copying import Place, copy, losses, verify
from kstore_core.maintenance.migrate.from_log import check_log, compare, restore_versions
from kstore_core.maintenance.migrate.results import Migrated, MigrateProgress, ProgressCallback
from kstore_core.maintenance.migrate.specs import spec_on_disk
from kstore_core.maintenance.migrate.swapping import clean, discard, moves, set_aside, swap
from kstore_core.spec import StoreSpec
from kstore_core.state import open_state
from kstore_core.state.migration_note import Plan, places
from kstore_core.system.lock import DirectoryLock

__all__ = ["To", "Work", "check_on_disk"]

To = str | ValueFormat | StoreSpec | None
"""The new format of a store, or its new spec; None to keep the format."""


def check_on_disk(engine: Engine) -> None:
    if not engine.capabilities.persistent:
        raise UnsupportedError(
            f"the engine {engine.name!r} stores nothing on disk, so a migration cannot read or "
            "write its stores. Put the rows into a state directory of another engine"
        )


class Work:
    """A migration, which `run` executes."""

    def __init__(
        self,
        root: Path,
        source: Engine,
        specs: Mapping[str, StoreSpec],
        callback: ProgressCallback,
        *,
        lossy: bool,
    ) -> None:
        self._root = root
        self._source = source
        self._specs = specs
        self._callback = callback
        self._lossy = lossy

    def run(
        self,
        store: str,
        to: To,
        engine: str | Engine | None,
        log: Changelog | None,
        every_store: bool,
        lock: DirectoryLock,
        *,
        drop_old: bool,
    ) -> list[Migrated]:
        """Migrate a store, and the other stores of the directory if the engine changes."""
        target = self._engine(engine)
        names = self._names(store, target, every_store)
        specs = [
            spec_on_disk(self._source, self._root, name, self._specs.get(name)) for name in names
        ]
        wanted = [self._target(specs[0], to, log), *specs[1:]]
        if target is self._source and wanted[0] is specs[0]:
            clean(self._root)  # a migration may have been killed after its last step
            old = set_aside(self._root, store)
            return [Migrated(store, False, target.name, target.name, old=old)]
        plan = Plan("copy", tuple(names), self._source.name, target.name)
        self._make_way(plan.stores, drop_old=drop_old)
        clean(self._root)
        plan.write(self._root)
        try:
            done = [
                self._make(old, new, target, log) for old, new in zip(specs, wanted, strict=True)
            ]
            for name in plan.stores if drop_old else ():
                discard(self._root, name)
            self._callback(MigrateProgress(plan.stores[0], "plan"))
            steps = moves(plan, self._source, target, self._root)
            plan = replace(plan, step="swap", moves=steps)
            plan.write(self._root)
        except BaseException:
            places(self._root).plan.unlink(missing_ok=True)
            clean(self._root)
            raise
        swap(self._root, plan, lock, lambda step, name: self._callback(MigrateProgress(name, step)))
        for one in done:
            one.old = set_aside(self._root, one.store)
        return done

    def _engine(self, wanted: str | Engine | None) -> Engine:
        if wanted is None:
            return self._source
        engine = make_engine(wanted)
        check_on_disk(engine)
        same_options = isinstance(wanted, str) or engine.options == self._source.options
        return self._source if engine.name == self._source.name and same_options else engine

    def _names(self, store: str, target: Engine, every_store: bool) -> list[str]:
        """Return the names of the stores to migrate.

        Raises
        ------
        StateError
            The store does not exist, or the engine changes and other stores would keep the old
            engine.
        """
        with open_state(self._root, engine=self._source, read_only=True) as state:
            there = state.stores()
        if store not in there:
            raise StateError(
                f"{self._root} has no store {store!r}; it has: {', '.join(there) or 'none'}"
            )
        if target is self._source:
            return [store]
        others = [name for name in there if name != store]
        if others and not every_store:
            raise StateError(
                f"{self._root} is a state directory of the engine {self._source.name!r} and has "
                f"other stores: {', '.join(others)}. All stores of a directory must have the same "
                "engine with the same options. To migrate all stores together, pass "
                "every_store=True, --all on the command line"
            )
        return [store, *others]

    def _target(self, old: StoreSpec, to: To, log: Changelog | None) -> StoreSpec:
        """Return the spec of the new store, or the object ``old`` itself if nothing changes."""
        if log is not None:
            if not isinstance(to, StoreSpec) or to.shape != "versioned" or to.name != old.name:
                raise SpecError(
                    f"a migration with a changelog turns the store {old.name!r} into a versioned "
                    "store, so it needs the spec of the versioned store. Pass the spec with to=, "
                    "--to versioned and --history-retention on the command line"
                )
            if old.describe() == to.describe():
                return old
            if old.shape != "key_value":
                raise SpecError(
                    f"the store {old.name!r} is a {old.shape} store; only a key-value store can be "
                    "migrated to a versioned store"
                )
            return to
        if to is None:
            return old
        if isinstance(to, StoreSpec):
            raise SpecError(
                f"to= must be the name of a format for the store {old.name!r}, not a spec. To make "
                "a versioned store, also pass the store's changelog (from_log=, --from-log)"
            )
        value_format = named(to, old.family) if isinstance(to, str) else to
        return old if value_format == old.format else replace(old, format=value_format)

    def _make_way(self, stores: Sequence[str], *, drop_old: bool) -> None:
        for store in stores:
            aside = set_aside(self._root, store)
            if aside is not None and not drop_old:
                drop = command("migrate", self._root, store, options="--drop-old")
                raise StateError(
                    f"the old files of the store {store!r} from an earlier migration are still in "
                    f"{aside}. Delete them with: {drop}"
                )

    def _make(
        self, old: StoreSpec, new: StoreSpec, engine: Engine, log: Changelog | None
    ) -> Migrated:
        """Make the new store, and compare it with the old store."""
        source = Place(self._source, self._root, old)
        target = Place(engine, places(self._root).new, new)
        target.root.mkdir(exist_ok=True)
        done = Migrated(old.name, True, self._source.name, engine.name, old.format, new.format)
        found = databases(self._source, self._root, old.name, None)
        # Kafka Streams ignores the lock file, but it cannot open a database that is open here.
        with closing(found[0]()) if found else nullcontext():
            if new.shape != old.shape:
                self._make_versions(source, target, cast("Changelog", log), done)
                return done
            if not self._lossy:
                self._refuse_losses(source, new)
            done.rows, done.lost = copy(source, target, self._callback)
            verify(source, target, self._callback)
        return done

    def _make_versions(self, source: Place, target: Place, log: Changelog, done: Migrated) -> None:
        check_log(source, log)
        restored = restore_versions(source, target, log, self._callback)
        done.rows, done.late = restored.rows, restored.late
        done.differing = compare(source, target, self._callback)
        if done.differing and not self._lossy:
            raise StateError(
                f"in the versioned store, {done.differing} keys of the store {done.store!r} would "
                "have another newest value or no value. Their records have descending times, are "
                "too late for the history, or belong to another store. To migrate anyway, pass "
                "lossy=True, --lossy on the command line"
            )

    def _refuse_losses(self, source: Place, new: StoreSpec) -> None:
        old = source.spec.format
        if old.timestamped <= new.format.timestamped and old.headers <= new.format.headers:
            return
        lost = losses(source, new, self._callback)
        if any(lost):
            raise FormatDowngradeError(
                f"the format {new.format.name} cannot store all data of the store {new.name!r}: "
                f"{lost.timestamps} timestamps and {lost.headers} headers of {lost.headed} values "
                "would be lost. Nothing was changed. To migrate anyway, pass lossy=True, --lossy "
                "on the command line"
            )
