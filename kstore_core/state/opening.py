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
from kstore_core.engine import DURABILITY_LEVELS, Durability, Engine
from kstore_core.errors import SpecError, StateError, StorageFullError, UnsupportedError
from kstore_core.layers import CacheBudget
from kstore_core.metrics import REGISTRY, MetricsRegistry
from kstore_core.plugins.registry import make_engine
from kstore_core.restore.replay import RestoreListener
from kstore_core.state.changelogs import StateLogs
from kstore_core.state.directory import StateDirectory
from kstore_core.state.recognition import check_engine, engine_of
from kstore_core.system.directories import make_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.lock import DirectoryLock
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

    Leaving ``with open_state(…)`` normally commits; leaving it by an exception discards what is not
    committed. So does :meth:`StateDirectory.close` without a commit before it.

    Parameters
    ----------
    path : path-like
        The directory; made where it is missing, unless ``read_only``.
    engine : str or Engine, optional
        A name, or an object. Left out: what the directory records, else the engine that recognises
        the stores in it, which is RocksDB for a directory of Kafka Streams.
    durability : {"process", "power", "changelog"}
        What a commit survives: SIGKILL; and a power cut; or what Kafka's own stores survive, where
        a crash may lose a tail, data and offsets together.
    transactional : bool
        Never write before the commit: a write beyond ``uncommitted_max_bytes`` is refused.
    read_only : bool
        Write nothing but LMDB's table of readers, lock nothing; may be used while another process
        writes, and sees the stores as they were committed when each was opened.
    options : mapping, optional
        The engine's; with an engine object they belong to its constructor.
    changelog : path-like, Changelogs or Changelog, optional
        Where all writes go, and what stores are restored from when they are opened and it has more
        than they have: a directory of logs in files, or a `ChangelogDirectory`; or the log of the
        one store that is opened, which stays its owner's to close. See docs/restore.md.
    on_restore : callable, optional
        Told how far a restore is, by `kstore_core.restore.replay.RestoreProgress`.
    uncommitted_max_bytes : int
        Keys and values that may be staged, in bytes; beyond it they are written before the commit,
        without offsets. Negative for no limit. Each row takes about 120 bytes of memory beside
        these, in a cache about 250: see docs/transactions.md.
    cache_max_bytes : int
        What the caches of all stores with ``spec.with_cache()`` may hold together.
    lock_timeout_s : float
        How long to wait for another writer.
    migrate_on_read : bool
        Whether a lookup moves a row that is still in an older format, as Kafka's does; writes move
        rows in any case. See docs/upgrade.md.
    partition_time : bool
        Whether stream time honours the header ``partition-time`` of the records that are worked on
        within ``state.record(…)``. See docs/partition-time.md.
    metrics : MetricsRegistry
        Where stores with ``spec.with_metrics()`` are found; the process's, if no other is given.

    Raises
    ------
    EngineLockedError
        Another writer holds the directory.
    SpecError
        No engine is given and the directory tells none or two; or one is given, and the stores in
        the directory are of another; an unknown option.
    StateError
        ``read_only`` and there is no such directory; or it cannot be made or written.
    StorageFullError
        There is no space left to make it.
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
        raise SpecError(f"lock_timeout_s is a number of seconds, 0 or more, not {lock_timeout_s!r}")
    if not os.fspath(path):
        raise SpecError("the path of the state directory is empty")
    try:
        root = Path(path).resolve()
    except (OSError, RuntimeError) as error:  # Python has told loops of links by either
        raise StateError(f"{os.fspath(path)} leads nowhere: {error}; mend its links") from error
    except ValueError as error:
        raise SpecError(f"{os.fspath(path)!r} can be no path: {error}; give another one") from error
    if engine is None:
        if read_only and not root.is_dir():
            raise _missing(root)
        engine = engine_of(root)
    made = make_engine(engine, options)
    check = partial(check_engine, root, made)
    check()
    able = made.capabilities
    staging = Staging(
        uncommitted_max_bytes,
        transactional,
        max_key_bytes=able.max_key_bytes,
        empty_keys=able.empty_keys,
    )
    if able.persistent:
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
            if able.persistent and not read_only:
                lock = DirectoryLock(root, made.name, lock_timeout_s, check)
            state = StateDirectory(
                root,
                made,
                lock,
                staging,
                CacheBudget(cache_max_bytes),
                metrics=metrics,
                durability=durability,
                read_only=read_only,
                migrate_on_read=migrate_on_read,
                partition_time=partition_time,
                logs=logs,
                on_restore=on_restore,
            )
    except BaseException:  # an interrupt at the end of the section, above all: nobody has them
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
    """What to say of a directory that cannot be made."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(f"{root} cannot be made: no space left. Make room and try again")
    return StateError(
        f"{root} cannot be made: {error.strerror or error}. Mend the permissions of the directory "
        "that it is to be in, or give another path"
    )
