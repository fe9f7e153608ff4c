"""What the tests of the LMDB engine share."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kstore_lmdb import LMDBEngine
from tests.plugins.rocksdb.support import Pairs, flat, numbered, put, scanned
from tests.plugins.support import run_python

__all__ = ["Pairs", "flat", "numbered", "put", "python", "rows_of", "scanned"]


def rows_of(root: Path, store: str = "s", namespace: str = "default") -> Pairs:
    """The rows of a store, read by a handle of its own."""
    database = LMDBEngine().open(root, store, read_only=True)
    try:
        return scanned(database.namespace(namespace))
    finally:
        database.close()


python = partial(run_python, "kstore_lmdb import LMDBEngine")
"""Another interpreter that runs ``code`` with ``root`` and what follows it in ``argv``."""
