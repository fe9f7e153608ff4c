"""The function :func:`open_state`, which opens a state directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kstore_core.changelog import Changelog, Changelogs
from kstore_core.checks import check_choice, resolved_path
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
"""The default of the setting ``statestore.cache.max.bytes`` in Kafka Streams."""


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
    """Open a state directory of kstore or a task directory of Kafka Streams.

    If a block ``with open_state(…)`` ends normally, the state is committed. If the block ends with
    an exception, the uncommitted writes are discarded, like in :meth:`StateDirectory.close`.

    Parameters
    ----------
    path : path-like
        The path of the directory. A missing directory is created, unless ``read_only`` is True.
    engine : str or Engine, optional
        The name of an engine, or an engine object. By default the engine that the directory's lock
        file names, or the engine that recognises the stores in the directory. RocksDB recognises
        the stores of Kafka Streams.
    durability : {"process", "power", "changelog"}
        The failures that a commit survives. With "process" it survives SIGKILL. With "power" it
        survives SIGKILL and a power cut. With "changelog" it survives the same failures as in Kafka
        Streams, so a crash may lose the latest rows together with their offsets.
    transactional : bool
        If True, no row is written to the engine before the commit. A write beyond
        ``uncommitted_max_bytes`` then raises UncommittedLimitError.
    read_only : bool
        If True, the directory is not locked, so another process may write to it. Nothing is written
        except LMDB's table of readers. Each store shows the last commit before the store was
        opened.
    options : mapping, optional
        The options of the engine, if ``engine`` is a name. An engine object must get its options in
        its constructor.
    changelog : path-like, Changelogs or Changelog, optional
        The changelogs to which all writes are sent, and from which a store is restored when it is
        opened. Pass the path of a directory of log files, a `ChangelogDirectory`, a
        `KafkaChangelogs`, or the log of a single store. The caller must close such a log. See
        docs/restore.md.
    on_restore : callable, optional
        A function that is called with the `kstore_core.restore.replay.RestoreProgress` of a
        restore.
    uncommitted_max_bytes : int
        The limit of the staged keys and values in bytes; no limit if negative. Unless the state is
        transactional, a write beyond the limit writes the staged rows to the engine before the
        commit, without offsets. In memory, each staged row needs about 120 bytes more than its key
        and value, and each row in a cache about 250 bytes more; see docs/transactions.md.
    cache_max_bytes : int
        The limit in bytes of the cache that all stores with ``spec.with_cache()`` share.
    lock_timeout_s : float
        The maximum time in seconds to wait until another writer closes the directory.
    migrate_on_read : bool
        If True, a lookup that finds a row of an older format upgrades the row, as in Kafka Streams.
        Writes always upgrade rows. See docs/upgrade.md.
    partition_time : bool
        If True, the header ``partition-time`` of a record in ``state.record(…)`` advances stream
        time. See docs/partition-time.md.
    metrics : MetricsRegistry
        The registry for the metrics of stores with ``spec.with_metrics()``. By default the registry
        of the process.

    Raises
    ------
    EngineLockedError
        Another writer has locked the directory.
    SpecError
        ``engine`` is not given, and the directory contains stores of no engine or of two engines.
        Or the stores belong to another engine than ``engine``. Or an option is unknown.
    StateError
        The directory is missing and ``read_only`` is True, or the directory cannot be created or
        written.
    StorageFullError
        The disk is full.
    UnknownEngineError, EngineUnavailableError
        The engine is not installed, or it is installed but cannot be loaded.
    """
    if changelog is not None and read_only:
        raise UnsupportedError(
            "changelog= was passed with read_only=True, but a read-only state directory neither "
            "writes to changelogs nor is restored from them. Leave out changelog="
        )
    logs = StateLogs(changelog)
    check_choice("durability", durability, DURABILITY_LEVELS)
    if not (isinstance(lock_timeout_s, (int, float)) and lock_timeout_s >= 0):
        raise SpecError(
            f"lock_timeout_s must be a number of seconds, 0 or more, not {lock_timeout_s!r}"
        )
    root = resolved_path(path)
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
                raise StateError(
                    f"{root} is not a directory: {error}; pass the path of a directory"
                ) from error
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
        f"there is no state directory at {root}. Pass the path of an existing state directory, or "
        "open this path without read_only=True to create a state directory"
    )


def _unmade(error: OSError, root: Path) -> Exception:
    """Return the error for a directory that cannot be created."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(
            f"{root} cannot be created: no space left. Free some space, and try again"
        )
    return StateError(
        f"{root} cannot be created: {error.strerror or error}. Correct the permissions of its "
        "parent directory, or pass another path"
    )
