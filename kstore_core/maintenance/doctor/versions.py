"""A check for files whose RocksDB version is newer than the installed RocksDB."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.maintenance.doctor.environment import at
from kstore_core.maintenance.doctor.holders import below
from kstore_core.maintenance.verify import Finding

__all__ = ["rocksdb_versions"]

_VERSION = re.compile(r"^\s*rocksdb_version=(\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_PATIENCE_S = 60
_PROBE = """
import pickle, sys, tempfile
from pathlib import Path
sys.path[:], engine = pickle.load(sys.stdin.buffer)
from kstore_core.maintenance.doctor.versions import newest
with tempfile.TemporaryDirectory() as root:
    engine.open(Path(root), "probe").close()
    print(*newest(Path(root)) or ())
"""


def rocksdb_versions(engine: Engine, root: Path, *, sound: bool) -> Iterator[Finding]:
    """Report a store whose RocksDB version is newer than the installed RocksDB.

    Kafka Streams and the Python binding contain different versions of RocksDB, and these versions
    usually read each other's files. If all stores could be read, the finding is only a note. The
    binding has no function that returns its RocksDB version. So a subprocess writes a database, and
    the files of this database name the version.

    Parameters
    ----------
    engine : Engine
    root : Path
        The state directory.
    sound : bool
        True if no store is corrupt.
    """
    written = newest(root)
    if engine.name != "rocksdb" or written is None:
        return
    installed = _installed(pickle.dumps((sys.path, engine)))
    if installed and written[:2] > installed[:2]:
        names = [".".join(map(str, version)) for version in (written, installed)]
        why = f"RocksDB {names[0]} has written a store, but RocksDB {names[1]} is installed"
        if sound:
            yield at("note", "version", f"{why}; the installed version can read the store")
        else:
            remedy = (
                "if the store cannot be opened, run: pip install --upgrade 'rocksdict>=0.3.29,<0.4'"
            )
            yield at("finding", "version", why, remedy)


@lru_cache(maxsize=1)  # another call in this process would find the same version
def _installed(pickled: bytes) -> tuple[int, ...]:
    """Return the version of RocksDB in rocksdict, or an empty tuple if it cannot be found out."""
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE],
        input=pickled,
        capture_output=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    return tuple(map(int, probe.stdout.split()))


def newest(root: Path) -> tuple[int, ...] | None:
    """Return the newest RocksDB version that has written files below ``root``.

    Return None if the directory has no files of RocksDB.
    """
    found = set()
    for file in below(root):
        if not file.name.startswith("OPTIONS-"):
            continue
        try:
            match = _VERSION.search(file.read_text(errors="replace"))
        except FileNotFoundError:  # a writer has just replaced the file
            continue
        if match:
            found.add(tuple(map(int, match.groups())))
    return max(found, default=None)
