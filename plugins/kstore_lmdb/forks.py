"""The open databases of this process: closed when it exits, abandoned after a fork.

An environment belongs to the process that opened it. A child that closed it, or ended one of its
transactions, would free the slots of its parent's readers in the shared lock file. So a forked
child frees no native object, not even when Python collects the owner.
"""

from __future__ import annotations

from kstore_core.engine.handles import OpenDatabases

__all__ = ["DATABASES"]

DATABASES = OpenDatabases()
