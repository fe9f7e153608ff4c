"""What the tests of the RocksDB engine share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

from kstore_core.engine import Database, Namespace, Rows
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.namespace import FamilyNamespace
from tests.plugins.support import run_python

Pairs = list[tuple[bytes, bytes]]
KEYS = [b"%08d" % number for number in range(60)]
ENDS = st.sampled_from(KEYS)


def put(database: Database, rows: Mapping[bytes, bytes | None], namespace: str = "default") -> None:
    """Write rows in one batch."""
    keys = sorted(rows)
    database.write({namespace: Rows(keys, [rows[key] for key in keys])})


def scanned(
    namespace: Namespace,
    lo: bytes | None = None,
    hi: bytes | None = None,
    *,
    reverse: bool = False,
) -> Pairs:
    """Every row of a scan."""
    return flat(namespace.scan(lo, hi, reverse=reverse))


def flat(chunks: Iterable[tuple[list[bytes], list[bytes]]]) -> Pairs:
    return [row for keys, values in chunks for row in zip(keys, values, strict=True)]


def started(namespace: FamilyNamespace, lo: bytes, hi: bytes) -> Pairs:
    """Every row of a range, as a short read begins it."""
    chunk, rest = namespace.start(lo, hi)
    return flat([] if chunk is None else [chunk]) + flat(rest or ())


def numbered(count: int, size: int = 20, start: int = 0) -> dict[bytes, bytes]:
    """Rows with ascending keys and values that do not compress."""
    return {b"%08d" % i: os.urandom(size) for i in range(start, start + count)}


def reopened(root: Path, store: str = "s") -> Pairs:
    """The rows of ``default``, from a new handle that can be had only if the LOCK is free."""
    database = RocksDBEngine().open(root, store)
    try:
        return scanned(database.namespace("default"))
    finally:
        database.close()


python = partial(run_python, "kstore_rocksdb import RocksDBEngine")
"""Another interpreter that runs ``code`` with ``root`` and what follows it in ``argv``."""


def every_use(database: RocksDBDatabase, tmp_path: Path) -> list[Callable[[], object]]:
    """Each way to use a database, taken while it is open."""
    default = database.namespace("default")
    snapshot = database.snapshot()
    moment = snapshot.namespace("default")
    scans = [
        default.scan(),
        default.scan(reverse=True),
        default.scan(b"0", b"9"),
        moment.scan(),
        moment.scan(reverse=True),
    ]
    for scan in scans[::2]:
        next(scan)
    get, get_many, get_moment = default.get, default.get_many, moment.get
    return [
        lambda: get(b"k"),
        lambda: get_many([b"k"]),
        lambda: get_moment(b"k"),
        lambda: default.get(b"k"),
        lambda: default.get_many([b"k"]),
        lambda: default.scan(),
        lambda: default.scan(b"b", b"a"),
        lambda: default.first(reverse=True),
        lambda: default.approximate_count(),
        lambda: moment.get(b"k"),
        lambda: moment.get_many([b"k"]),
        lambda: moment.scan(),
        lambda: moment.first(),
        lambda: moment.approximate_count(),
        lambda: snapshot.namespace("default"),
        *(lambda scan=scan: next(scan) for scan in scans),
        lambda: database.namespaces(),
        lambda: database.namespace("default"),
        lambda: database.namespace("new"),
        lambda: database.drop_namespace("offsets"),
        lambda: database.write({"default": Rows([b"k"], [b"v"])}),
        lambda: database.write({}),
        lambda: database.load("default", [([b"k"], [b"v"])]),
        lambda: database.snapshot(),
        lambda: database.checkpoint(tmp_path / "checkpoint"),
        lambda: database.sync(),
    ]
