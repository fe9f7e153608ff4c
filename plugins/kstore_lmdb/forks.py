"""The open databases of this process. They are closed at its exit, but not in a forked child.

An environment belongs to the process that opened it. If a forked child closed the environment, or
ended a transaction, the readers of its parent would lose their slots in the shared lock file. So a
forked child frees no native object, even if Python frees the object that owns it.
"""

from __future__ import annotations

from kstore_core.engine.handles import OpenDatabases

__all__ = ["DATABASES"]

DATABASES = OpenDatabases()
