"""Finding engines: by entry point, loaded by name, only the one asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kstore_core.engine import Engine, EngineOptions
from kstore_core.errors import EngineUnavailableError, KStoreError, UnknownEngineError

__all__ = [
    "ENTRY_POINT_GROUP",
    "InstalledEngine",
    "engine_class",
    "installed_engines",
    "make_engine",
]

ENTRY_POINT_GROUP = "kstore.engines"


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    """An engine as its distribution announces it; nothing has been imported.

    Attributes
    ----------
    name : str
        What ``open_state(engine=…)`` takes.
    module : str
        The plug-in module.
    distribution, version : str
        Who provides it.
    """

    name: str
    module: str
    distribution: str
    version: str


class _Registrar:
    def __init__(self) -> None:
        self.engines: dict[str, type[Engine]] = {}

    def add(self, engine: type[Engine]) -> None:
        if not (isinstance(engine, type) and issubclass(engine, Engine)):
            raise TypeError(f"an engine is a subclass of kstore_core.engine.Engine, not {engine!r}")
        self.engines[engine.name] = engine


_loaded: dict[str, type[Engine]] = {}


def installed_engines() -> list[InstalledEngine]:
    """What the installed distributions announce, sorted by name."""
    from importlib import metadata  # slow to import, and needed only here

    found = {
        (point.name, point.value): InstalledEngine(
            point.name,
            point.value,
            point.dist.name if point.dist else "?",
            point.dist.version if point.dist else "?",
        )
        for point in metadata.entry_points(group=ENTRY_POINT_GROUP)
    }
    return [found[key] for key in sorted(found)]


def engine_class(name: str) -> type[Engine]:
    """The engine of this name; its plug-in, and no other, is imported.

    Raises
    ------
    UnknownEngineError
        No distribution announces it. The text lists what is installed.
    EngineUnavailableError
        Its plug-in cannot be imported, or does not register an engine of that name.
    """
    if name in _loaded:
        return _loaded[name]
    installed = installed_engines()
    candidates = [engine for engine in installed if engine.name == name]
    if not candidates:
        names = ", ".join(sorted({engine.name for engine in installed})) or "none"
        raise UnknownEngineError(
            f"no engine named {name!r} is installed; installed are: {names}. "
            f"An engine comes with a distribution that has an entry point in {ENTRY_POINT_GROUP!r}"
        )
    if len(candidates) > 1:
        claims = " and ".join(f"{c.distribution} ({c.module})" for c in candidates)
        raise EngineUnavailableError(
            f"the engine name {name!r} is claimed by {claims}; uninstall one of them"
        )
    import pluggy

    from kstore_core import hookspecs

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.load_setuptools_entrypoints(ENTRY_POINT_GROUP, name=name)
        manager.check_pending()
        registrar = _Registrar()
        manager.hook.kstore_register_engines(registrar=registrar)
        engine = registrar.engines[name]
    except KStoreError:
        raise
    except Exception as error:
        raise EngineUnavailableError(
            f"the engine {name!r} of {candidates[0].distribution} {candidates[0].version} cannot "
            f"be loaded: {type(error).__name__}: {error}. Try: pip install 'kstore[{name}]'"
        ) from error
    _loaded[name] = engine
    return engine


def make_engine(
    engine: str | Engine, options: Mapping[str, Any] | EngineOptions | None = None
) -> Engine:
    """An engine from its name and options; an instance is passed through."""
    if isinstance(engine, Engine):
        if options is not None:
            raise TypeError("options belong to the engine's constructor when an instance is given")
        return engine
    return engine_class(engine)(options)
