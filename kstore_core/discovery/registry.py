"""The installed engines, which distributions announce by entry points.

An engine is imported when it is used for the first time.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from kstore_core.discovery.entry_points import (
    NOT_A_PLUGINS,
    Announced,
    advice,
    announced,
    claims,
    load_hooks,
    reason,
)
from kstore_core.engine import DURABILITY_LEVELS, Capabilities, Engine, EngineOptions
from kstore_core.errors import EngineUnavailableError, UnknownEngineError
from kstore_core.hints import EXTRAS, install
from kstore_core.hookspecs import ENGINES

__all__ = ["engine_class", "installed_engines", "make_engine"]


class _Registrar:
    """The registrar that collects the engines of one plug-in."""

    def __init__(self) -> None:
        self.engines: dict[str, type[Engine]] = {}

    def add(self, engine: type[Engine]) -> None:
        if not (isinstance(engine, type) and issubclass(engine, Engine)):
            raise TypeError(
                f"an engine must be a subclass of kstore_core.engine.Engine, not {engine!r}"
            )
        if inspect.isabstract(engine):
            missing = ", ".join(sorted(engine.__abstractmethods__))
            raise TypeError(f"{engine.__name__} does not implement {missing}")
        if not isinstance(getattr(engine, "name", None), str):
            raise TypeError(f"{engine.__name__} must have a name, which must be a str")
        if not isinstance(getattr(engine, "capabilities", None), Capabilities):
            raise TypeError(
                f"{engine.__name__} must have the attribute capabilities, a Capabilities object"
            )
        _check_types(engine.__name__, engine.capabilities)
        self.engines[engine.name] = engine


def _check_types(engine: str, can: Capabilities) -> None:
    """Raise a TypeError if a field of an engine's capabilities has a wrong type."""
    for field in dataclasses.fields(can):
        value = getattr(can, field.name)
        if field.name == "durability":
            wanted = f"a tuple of {', '.join(DURABILITY_LEVELS)}"
            right = isinstance(value, tuple) and all(level in DURABILITY_LEVELS for level in value)
        elif field.name == "max_key_bytes":
            wanted, right = "an int or None", value is None or type(value) is int
        else:
            wanted, right = "a bool", type(value) is bool
        if not right:
            raise TypeError(f"{engine}.capabilities.{field.name} must be {wanted}, not {value!r}")


_loaded: dict[str, type[Engine]] = {}


def installed_engines() -> list[Announced]:
    """Return the engines that installed distributions announce, sorted by name."""
    return announced(ENGINES)


def engine_class(name: str) -> type[Engine]:
    """Return the engine class with this name. Import only the plug-in that provides this engine.

    Raises
    ------
    UnknownEngineError
        No distribution announces the engine. The message lists the installed engines.
    EngineUnavailableError
        Two distributions announce the engine, its plug-in cannot be imported, or the plug-in does
        not register an engine with this name.
    """
    if name in _loaded:
        return _loaded[name]
    installed = installed_engines()
    candidates = [engine for engine in installed if engine.name == name]
    if not candidates:
        names = ", ".join(sorted({engine.name for engine in installed})) or "none"
        raise UnknownEngineError(
            f"no engine named {name!r} is installed; installed are: {names}. "
            "To add an engine, install a distribution with an entry point in the group "
            f"{ENGINES!r}"
        )
    if len(candidates) > 1:
        raise EngineUnavailableError(f"the engine name {name!r} {claims(candidates)}")
    found = candidates[0]
    registrar = _Registrar()
    try:
        load_hooks(ENGINES, found).kstore_register_engines(registrar=registrar)
        if name not in registrar.engines:
            given = ", ".join(map(repr, registrar.engines)) or "none"
            raise LookupError(
                f"{found.module} registers no engine of this name; it registers: {given}"
            )
    except NOT_A_PLUGINS:
        raise
    except BaseException as error:
        own = found.distribution == "kstore"
        upgrade = f"pip install --upgrade {found.distribution}"
        command = install(name) if own and name in EXTRAS else upgrade
        raise EngineUnavailableError(
            f"the engine {found} cannot be loaded: {reason(error)}. {advice(f'Try: {command}')}"
        ) from error
    _loaded[name] = registrar.engines[name]
    return _loaded[name]


def make_engine(
    engine: str | Engine, options: Mapping[str, Any] | EngineOptions | None = None
) -> Engine:
    """Return an engine with this name and these options. An engine object is returned unchanged.

    Raises
    ------
    TypeError
        ``engine`` is an engine object, and ``options`` are given.
    """
    if isinstance(engine, Engine):
        if options is not None:
            raise TypeError(
                "options cannot be given together with an engine object; pass them to the "
                "constructor of the engine"
            )
        return engine
    return engine_class(engine)(options)
