"""Opening a state directory: its engine, its lock, and the options."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kstore_core.changelog import Changelog, Changelogs
from kstore_core.checks import check_choice
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import DURABILITY_LEVELS, Durability, Engine
from kstore_core.errors import SpecError, StateError, StorageFullError, UnsupportedError
from kstore_core.layers import CacheBudget
from kstore_core.metrics import REGISTRY, MetricsRegistry
from kstore_core.restore.replay import RestoreListener
from kstore_core.state.changelogs import StateLogs
from kstore_core.state.directory import StateDirectory
from kstore_core.state.recognition import check_engine, engine_of
from kstore_core.system.directories import make_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.lock import DirectoryLock
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging

__all__ = ["DEFAULT_CACHE_MAX_BYTES", "DEFAULT_UNCOMMITTED_MAX_BYTES", "open_state"]

DEFAULT_UNCOMMITTED_MAX_BYTES = 64 * 1024 * 1024

DEFAULT_CACHE_MAX_BYTES = 10 * 1024 * 1024
"""Kafka's default of ``statestore.cache.max.bytes``."""


def open_state(
    path: str | os.PathLike[str],
    *,
    engine: str | Engine | None = None,
    durability: Durability = "process",
    transactional: bool = False,
    read_only: bool = False,
    options: Mapping[str, Any] | None = None,
    changelog: str | os.PathLike[str] | Changelogs | Changelog | None = None,
    on_restore: RestoreListener | None = None,
    uncommitted_max_bytes: int = DEFAULT_UNCOMMITTED_MAX_BYTES,
    cache_max_bytes: int = DEFAULT_CACHE_MAX_BYTES,
    lock_timeout_s: float = 0,
    migrate_on_read: bool = True,
    partition_time: bool = False,
    metrics: MetricsRegistry = REGISTRY,
) -> StateDirectory:
    """Open a state directory: a Kafka Streams task directory, or a new one.

    Leaving ``with open_state(…)`` normally commits; leaving it by an exception discards uncommitted
    writes, as :meth:`StateDirectory.close` does.

    Parameters
    ----------
    path : path-like
        The directory, created if it is missing unless ``read_only``.
    engine : str or Engine, optional
        The name of an engine, or an engine object. Default: the engine that the directory's lock
        file names, or else the engine that recognises the stores in the directory. For a directory
        of Kafka Streams this is RocksDB.
    durability : {"process", "power", "changelog"}
        The failures that a commit survives. "process": SIGKILL. "power": SIGKILL and a power cut.
        "changelog": the failures that Kafka Streams' own stores survive; a crash may lose the
        latest data together with their offsets.
    transactional : bool
        If True, no row is written before the commit, and a write beyond ``uncommitted_max_bytes``
        raises UncommittedLimitError.
    read_only : bool
        If True, the directory is not locked, and nothing is written except LMDB's table of readers.
        Another process may write. Each store shows the commit that was the last when the store was
        opened.
    options : mapping, optional
        Options for the engine of this name. An engine object gets its options in its constructor.
    changelog : path-like, Changelogs or Changelog, optional
        The changelogs to which all writes are sent, and from which stores are restored when they
        are opened. This is a directory of logs in files, a `ChangelogDirectory` or
        `KafkaChangelogs`, or the log of a single store. The caller must close a log that it passes.
        See docs/restore.md.
    on_restore : callable, optional
        A function that is called with the `kstore_core.restore.replay.RestoreProgress` of restores.
    uncommitted_max_bytes : int
        The limit of staged keys and values in bytes; no limit if negative. Beyond the limit, rows
        are written before the commit, without offsets. Each staged row needs about 120 bytes more
        memory, and each row in a cache about 250 bytes; see docs/transactions.md.
    cache_max_bytes : int
        The common limit in bytes of the caches of stores with ``spec.with_cache()``.
    lock_timeout_s : float
        The longest time in seconds to wait until another writer closes the directory.
    migrate_on_read : bool
        If True, a lookup upgrades a row of an older format, as in Kafka Streams. Writes always
        upgrade rows. See docs/upgrade.md.
    partition_time : bool
        Advance stream time by the header ``partition-time`` of the records in
        ``state.record(…)``. See docs/partition-time.md.
    metrics : MetricsRegistry
        The registry for the metrics of stores with ``spec.with_metrics()``. Default: the registry
        of the process.

    Raises
    ------
    EngineLockedError
        Another writer has locked the directory.
    SpecError
        No engine is given, and the directory has stores of no engine or of two engines; or the
        stores belong to another engine; or an option is unknown.
    StateError
        The directory is missing and ``read_only`` is True, or the directory cannot be created or
        written.
    StorageFullError
        The disk is full.
    UnknownEngineError, EngineUnavailableError
        The engine is not installed, or cannot be loaded.
    """
    if changelog is not None and read_only:
        raise UnsupportedError(
            "a state directory that is opened with read_only=True writes to no changelog and is "
            "not restored from one; leave changelog out"
        )
    logs = StateLogs(changelog)
    check_choice("durability", durability, DURABILITY_LEVELS)
    if not (isinstance(lock_timeout_s, (int, float)) and lock_timeout_s >= 0):
        raise SpecError(
            f"lock_timeout_s must be a number of seconds, 0 or more, not {lock_timeout_s!r}"
        )
    if not os.fspath(path):
        raise SpecError("the path of the state directory is empty")
    try:
        root = Path(path).resolve()
    except (OSError, RuntimeError) as error:  # the type for a loop of links depends on Python
        raise StateError(
            f"{os.fspath(path)} cannot be resolved: {error}; repair its links"
        ) from error
    except ValueError as error:
        raise SpecError(
            f"{os.fspath(path)!r} is not a valid path: {error}; pass another path"
        ) from error
    if engine is None:
        if read_only and not root.is_dir():
            raise _missing(root)
        engine = engine_of(root)
    made = make_engine(engine, options)
    check = partial(check_engine, root, made)
    check()
    capabilities = made.capabilities
    staging = Staging(
        uncommitted_max_bytes,
        transactional,
        max_key_bytes=capabilities.max_key_bytes,
        empty_keys=capabilities.empty_keys,
    )
    if capabilities.persistent:
        if read_only and not root.is_dir():
            raise _missing(root)
        if not read_only:
            try:
                make_directory(root, synced=durability == "power")
            except (FileExistsError, NotADirectoryError) as error:
                raise StateError(f"{root} is not a directory: {error}") from error
            except OSError as error:
                raise _unmade(error, root) from error
    lock = state = None
    try:
        with uninterrupted():
            if capabilities.persistent and not read_only:
                lock = DirectoryLock(root, made.name, lock_timeout_s, check)
            state = StateDirectory(
                root,
                made,
                lock,
                staging,
                CacheBudget(cache_max_bytes),
                metrics=metrics,
                options=OpenOptions(durability, read_only, migrate_on_read),
                partition_time=partition_time,
                logs=logs,
                on_restore=on_restore,
            )
    except BaseException:  # above all an interrupt at the end of the section
        if state is not None:
            state.close()
        elif lock is not None:
            lock.release()
        raise
    return state


def _missing(root: Path) -> StateError:
    return StateError(
        f"no state directory at {root}; give the path of one, or open it without read_only=True "
        "to make it"
    )


def _unmade(error: OSError, root: Path) -> Exception:
    """Return the error for a directory that cannot be created."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(f"{root} cannot be made: no space left. Make room and try again")
    return StateError(
        f"{root} cannot be made: {error.strerror or error}. Correct the permissions of its parent "
        "directory, or give another path"
    )
