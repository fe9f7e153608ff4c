"""The contents of a store before and after a migration."""

from __future__ import annotations

from typing import Any

from kstore_core.testing.kinds import Kind

ENGINES = ("lmdb", "rocksdb")


def kept(target: Kind, answered: Any) -> Any:
    """What a store of this kind can hold of these answers of another one."""
    if target.shape != "versioned":
        time, rows = answered
        return time, [(key, target.record(*record)) for key, record in rows]
    if target.format.headers:
        return answered
    time, histories, as_of = answered
    bare = [(key, [(*version[:3], []) for version in history]) for key, history in histories]
    return time, bare, [(k, t, None if v is None else (*v[:3], [])) for k, t, v in as_of]
