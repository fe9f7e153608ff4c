"""A distribution of somebody else's: an engine, a layer and a command for kstore."""

from __future__ import annotations

from kstore_core.engine import Engine
from kstore_core.hookspecs import CommandRegistrar, EngineRegistrar, hookimpl
from kstore_core.spec import StoreSpec
from kstore_core.tables import Table


@hookimpl
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Add the engine ``sample``."""
    from kstore_sample.engine import SampleEngine

    engine: type[Engine] = SampleEngine
    registrar.add(engine)


@hookimpl
def kstore_wrap_table(table: Table, spec: StoreSpec) -> Table | None:
    """Squeeze the stores that say so by their names."""
    if not spec.name.endswith(".squeezed"):
        return None
    from kstore_sample.layer import Squeezed

    return Squeezed(table)


@hookimpl
def kstore_add_commands(registrar: CommandRegistrar) -> None:
    """Add ``kstore count``."""
    from kstore_sample.command import count

    registrar.add(count)
