"""What the tests of the LMDB engine share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kstore_lmdb import LMDBEngine
from tests.plugins.rocksdb.support import Pairs, flat, numbered, put, scanned

__all__ = ["Pairs", "flat", "numbered", "put", "python", "rows_of", "scanned"]


def rows_of(root: Path, store: str = "s", namespace: str = "default") -> Pairs:
    """The rows of a store, read by a handle of its own."""
    database = LMDBEngine().open(root, store, read_only=True)
    try:
        return scanned(database.namespace(namespace))
    finally:
        database.close()


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another interpreter that runs ``code`` with ``root`` and what follows it in ``argv``."""
    prelude = (
        "import os, sys, pathlib, time\n"
        "from kstore_core.engine import Rows\n"
        "from kstore_lmdb import LMDBEngine\n"
        "root = pathlib.Path(sys.argv[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
