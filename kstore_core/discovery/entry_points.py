"""The plug-ins that distributions announce by entry points.

Each plug-in is loaded and checked separately, so that an unusable plug-in does not affect others.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pluggy

from kstore_core import hookspecs
from kstore_core.errors import EngineUnavailableError, PluginError
from kstore_core.hookspecs import HOOKS, PLUGINS
from kstore_core.spec import StoreSpec
from kstore_core.system.directories import more_files
from kstore_core.tables import Table

__all__ = [
    "NOT_A_PLUGINS",
    "Announced",
    "Plugin",
    "PluginWarning",
    "advice",
    "announced",
    "claims",
    "installed_plugins",
    "load_hooks",
    "reason",
    "require",
    "usable_plugins",
    "wrap_table",
]


NOT_A_PLUGINS = (KeyboardInterrupt, MemoryError)
"""The exceptions that are not the fault of a plug-in, even if the code of the plug-in raises them.
"""


class PluginWarning(UserWarning):
    """The warning that a plug-in of the group ``kstore.plugins`` cannot be used and is ignored."""


@dataclass(frozen=True, slots=True, order=True)
class Announced:
    """The entry point of a plug-in. The module of the plug-in may not have been imported yet.

    Attributes
    ----------
    name : str
        The name of the plug-in. For an engine, it is the argument of ``open_state(engine=…)``.
    module : str
        The object to import: ``"package.module"`` or ``"package.module:object"``.
    distribution, version : str
        The name and the version of the distribution that provides the plug-in.
    """

    name: str
    module: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.name!r} of {self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in of the group ``kstore.plugins``.

    Attributes
    ----------
    announced : Announced
        The entry point of the plug-in.
    hook : pluggy.HookRelay or None
        The object that calls the hooks of this plug-in; None if the plug-in cannot be used.
    error : str or None
        The reason why the plug-in cannot be used; None if it can be used.
    """

    announced: Announced
    hook: pluggy.HookRelay | None = None
    error: str | None = None

    @property
    def hooks(self) -> list[str]:
        """The sorted names of the hooks that the plug-in implements."""
        if self.hook is None:
            return []
        return [name for name in HOOKS[PLUGINS] if getattr(self.hook, name).get_hookimpls()]


def announced(group: str) -> list[Announced]:
    """Return the entry points of a group in the installed distributions, sorted by name.

    Raises
    ------
    EngineUnavailableError
        The entry points cannot be listed, for example because too many files are open.
    """
    versions = tuple(map(_version, sys.path))
    # A value that changes when a distribution is installed or removed.
    installation = tuple(map(str, sys.path)), versions, tuple(map(id, sys.meta_path))
    known_for, found = _found.get(group, ((), []))
    if known_for == installation:
        return list(found)
    try:
        _check_files()
        found = _announced(group)
        _check_files()
    except OSError as error:
        raise EngineUnavailableError(
            f"the installed plug-ins of the group {group!r} cannot be listed: {error}. "
            f"{more_files(error) or 'Make the files of the installation readable'}, and try again"
        ) from error
    # A distribution that is being installed may have incomplete files, so list it again.
    changed_ns = max((version[1] for version in versions if version is not None), default=0)
    if time.time_ns() - changed_ns > _INSTALLING_NS:
        _found[group] = installation, found
    return list(found)


_INSTALLING_NS = 10_000_000_000
"""The time in ns that an installer may need for the files of one distribution."""

_found: dict[str, tuple[tuple[object, ...], list[Announced]]] = {}
"""The entry points of each group, and the installation in which they were found.

To list the entry points of 200 installed distributions takes 20 ms.
"""


def _check_files() -> None:
    """Raise an OSError if no file can be opened.

    Without this check importlib would find no plug-ins, because it treats a directory that it
    cannot list as an empty directory.
    """
    os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _version(folder: str) -> tuple[int, int] | None:
    """Return the inode of a folder and the time of its last change; None if there is no folder.

    The time changes with the entries of the folder.
    """
    try:
        found = Path(folder).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_ctime_ns


def _announced(group: str) -> list[Announced]:
    from importlib import metadata  # slow to import, and needed only here

    found = [
        Announced(
            point.name,
            point.value,
            (point.dist and point.dist.name) or "?",
            (point.dist and point.dist.version) or "?",
        )
        for point in metadata.entry_points(group=group)
    ]
    return sorted(found)


def claims(candidates: list[Announced]) -> str:
    """Return the end of an error message: the distributions that use the same name."""
    who = " and ".join(f"{c.distribution} {c.version} ({c.module})" for c in candidates)
    return f"is used by several distributions: {who}. Uninstall all of them except the one to use"


def advice(otherwise: str) -> str:
    """Return the remedy to recommend after a failed import.

    The remedy is ``otherwise``, unless the import failed because too many files are open.
    """
    try:
        _check_files()
    except OSError as error:
        return more_files(error) or otherwise
    return otherwise


def load_hooks(group: str, found: Announced) -> pluggy.HookRelay:
    """Import a plug-in, check its hooks, and return an object that calls only these hooks.

    Raises
    ------
    BaseException
        The import failed with this error. If the plug-in implements a hook that does not exist, or
        uses an argument that the hook does not have, the error is a ``PluginValidationError`` of
        pluggy.
    PluginError
        The plug-in implements no hook of its group.
    """
    from importlib.metadata import EntryPoint

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(EntryPoint(found.name, found.module, group).load())
    manager.check_pending()
    if not any(getattr(manager.hook, name).get_hookimpls() for name in HOOKS[group]):
        raise PluginError(
            f"{found.module} implements no hook of the group {group!r}; the hooks of the group "
            f"are: {', '.join(HOOKS[group])}"
        )
    return manager.hook


def reason(error: BaseException) -> str:
    """Return the class and the text of an error on one line, even if its ``__str__`` raises."""
    try:
        text = str(error)
    except Exception as failed:  # noqa: BLE001 - the error class may be a plug-in's
        text = f"(no text: its __str__ raises {type(failed).__name__})"
    return f"{type(error).__name__}: {' '.join(text.split())}"


@functools.cache
def installed_plugins() -> tuple[Plugin, ...]:
    """Return all plug-ins of the group ``kstore.plugins``, sorted by name.

    The first call in a process imports the plug-ins. If an import fails, or two distributions use
    the same name, the function does not raise an exception. The attribute ``error`` of the plug-in
    then contains the reason.
    """
    found = announced(PLUGINS)
    return tuple(_load(one, [other for other in found if other.name == one.name]) for one in found)


def _load(found: Announced, candidates: list[Announced]) -> Plugin:
    if len(candidates) > 1:
        return Plugin(found, error=f"the plug-in name {found.name!r} {claims(candidates)}")
    try:
        return Plugin(found, load_hooks(PLUGINS, found))
    except NOT_A_PLUGINS:
        raise
    except BaseException as error:  # noqa: BLE001 - an import may raise any exception
        return Plugin(found, error=f"the plug-in {found} cannot be loaded: {reason(error)}")


def usable_plugins() -> Iterator[Plugin]:
    """Yield the usable plug-ins, sorted by name.

    For each plug-in that cannot be used, issue a :class:`PluginWarning`.
    """
    for plugin in installed_plugins():
        if plugin.error is None:
            yield plugin
        else:
            warnings.warn(f"left out: {plugin.error}", PluginWarning, stacklevel=3)


def require(*names: str) -> None:
    """Check that plug-ins can be used. Call this function before you open a store that needs them.

    Parameters
    ----------
    names : str
        The names of the plug-ins' entry points in the group ``kstore.plugins``.

    Raises
    ------
    PluginError
        A plug-in is not installed or cannot be used.
    """
    known = {plugin.announced.name: plugin for plugin in installed_plugins()}
    for name in names:
        if name not in known:
            raise PluginError(
                f"no plug-in {name!r} is installed in the group {PLUGINS!r}; "
                f"installed are: {', '.join(known) or 'none'}. List all plug-ins with: "
                "kstore engines"
            )
        if known[name].error is not None:
            raise PluginError(f"{known[name].error}. List all plug-ins with: kstore engines")


def wrap_table(table: Table, spec: StoreSpec) -> Table:
    """Return ``table``, wrapped by each plug-in that has a layer for this store.

    Raises
    ------
    PluginError
        A plug-in raised an error, or returned an object that is not a table. The store is then not
        opened, because it must not be used without the layer.
    """
    for plugin in usable_plugins():
        assert plugin.hook is not None
        refused = (
            f"the plug-in {plugin.announced} cannot wrap the store {spec.name!r}, so the store was "
            "not opened"
        )
        try:
            front = plugin.hook.kstore_wrap_table(table=table, spec=spec)
        except NOT_A_PLUGINS:
            raise
        except BaseException as error:
            raise PluginError(f"{refused}: {reason(error)}") from error
        if front is not None:
            missing = [name for name in _TABLE if not hasattr(front, name)]
            if missing:
                raise PluginError(
                    f"{refused}: the hook kstore_wrap_table returned "
                    f"{front!r}, which is not a kstore_core.tables.Table, because it lacks "
                    f"{', '.join(missing)}"
                )
            table = front
    return table


_TABLE = sorted(
    name for name in {**Table.__annotations__, **vars(Table)} if not name.startswith("_")
)
