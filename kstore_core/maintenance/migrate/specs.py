"""The spec of a store on disk, for a program that reads all its rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import SpecError
from kstore_core.maintenance.finish_upgrade.finishing import databases, kind_of
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.spec import StoreSpec
from kstore_core.state import open_state

__all__ = ["spec_on_disk"]


def spec_on_disk(engine: Engine, root: Path, store: str, given: StoreSpec | None) -> StoreSpec:
    """Return a store's stored spec, with the newest format in the store, or the caller's spec.

    Parameters
    ----------
    root : Path
        The state directory.
    given : StoreSpec or None
        The spec of the caller. It is required if the store has no stored spec.

    Raises
    ------
    SpecError
        The store has no stored spec and ``given`` is None, or ``given`` contradicts the store.
    """
    with open_state(root, engine=engine, read_only=True) as state:
        stored = state.stored_spec(store)
    if stored is not None:
        if given is not None:
            stored.check(given, f"the store {store!r} in {root}")
        in_segments = store in engine.parents(root)
        newest = databases(engine, root, store, stored)[0]
        with closing(newest(read_only=True)) as database:
            _, value_format = kind_of(database, stored, None, None, in_segments)
        return replace(stored.of_bytes(), format=value_format)
    if given is None:
        raise SpecError(
            f"the store {store!r} in {root} has no stored spec, because Kafka Streams "
            "stores no specs. Describe the store with spec=, --shape and further options on "
            "the command line"
        )
    if given.shape == "window" and not given.retain_duplicates:
        with opened(engine, root, given) as contents:
            if contents.has_numbers():
                raise SpecError(
                    f"the rows of the store {store!r} in {root} have sequence numbers, "
                    "so the store retains duplicates. Pass retain_duplicates=True, "
                    "--retain-duplicates on the command line"
                )
    if given.time_ordered and not given.indexed:
        with opened(engine, root, given) as contents:
            return replace(given, indexed=contents.has_index())
    return given
