"""An engine whose databases end whoever reads them, in the way that its options say."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kstore_core.engine import Chunk, Durability
from kstore_core.errors import EngineLockedError
from kstore_core.testing.wrapping import WrappedDatabase, WrappedEngine, WrappedNamespace
from kstore_lmdb import LMDBEngine


class DyingNamespace(WrappedNamespace):
    """Ends the process after the first chunk of a scan."""

    def scan(self, *arguments: Any, **named: Any) -> Iterator[Chunk]:
        yield from super().scan(*arguments, **named)
        if self.name == "default":
            how = os.environ["KSTORE_TEST_DEATH"]
            if how == "hang":
                time.sleep(600)
            elif how == "raise":
                raise RuntimeError("nobody thought of this")
            elif how == "exit":
                os._exit(7)
            elif how == "abort":
                os.write(2, b"mdb.c:1: Assertion 'page' failed\n")
                os.abort()
            else:
                os.kill(os.getpid(), signal.SIGBUS)


class DyingEngine(WrappedEngine):
    """LMDB, of which one store kills."""

    namespace_type = DyingNamespace

    def __init__(self, inner: Any = None) -> None:
        super().__init__(inner or LMDBEngine())

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> Any:
        database = self.inner.open(root, store, durability=durability, read_only=read_only)
        return WrappedDatabase(database, self) if store == "deadly" else database

    def __reduce__(self) -> Any:
        return DyingEngine, ()


class LockedEngine(WrappedEngine):
    """LMDB, of which somebody holds one store and writes to the pages of another."""

    def __init__(self, inner: Any = None) -> None:
        super().__init__(inner or LMDBEngine())

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> Any:
        if store == "held":
            raise EngineLockedError("somebody has it", pid=4711)
        return self.inner.open(root, store, durability=durability, read_only=read_only)

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        raise EngineLockedError("its pages change")

    def __reduce__(self) -> Any:
        return LockedEngine, ()
