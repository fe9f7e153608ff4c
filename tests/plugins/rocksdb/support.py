"""What the tests of the RocksDB engine share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from kstore_core.engine import Database, Namespace, Rows
from kstore_rocksdb import RocksDBEngine

Pairs = list[tuple[bytes, bytes]]


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


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another interpreter that runs ``code`` with ``root`` and what follows it in ``argv``."""
    prelude = (
        "import sys, pathlib, time\n"
        "from kstore_core.engine import Rows\n"
        "from kstore_rocksdb import RocksDBEngine\n"
        "root = pathlib.Path(sys.argv[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
