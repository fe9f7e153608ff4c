"""The open LMDB databases of this process, which are closed when the process exits.

A forked process must not use or close the databases of its parent. If the forked process closed an
environment or ended a transaction, the readers of the parent would lose their slots in the shared
lock file. So a forked process never frees a native object of LMDB.
"""

from __future__ import annotations

from kstore_core.engine.handles import OpenDatabases

__all__ = ["DATABASES"]

DATABASES = OpenDatabases()
