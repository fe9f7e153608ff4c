"""An engine that fails on request, for tests of the code that uses engines."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from kstore_core.engine import Chunk, Database, Engine, Namespace, Rows, Snapshot
from kstore_core.errors import EngineError
from kstore_core.testing.wrapping import WrappedDatabase, WrappedEngine, WrappedNamespace

__all__ = ["OPERATIONS", "Faults", "FaultyEngine", "Operation"]

Operation = Literal[
    "open", "namespace", "drop", "get", "get_many", "scan",
    "chunk", "write", "load", "sync", "snapshot", "checkpoint",
]  # fmt: skip
"""The operations that can fail.

Most are calls of an engine. "chunk" is the read of the next chunk of an open scan. "drop" is the
drop of a namespace or of a child database.
"""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

MakeError = Callable[[str], Exception]


@dataclass
class _Torn:
    """A planned write of only a share of a batch. If ``error`` is None, no error is raised."""

    share: float
    error: MakeError | None


class Faults:
    """The planned faults of an engine. The calls of each operation are counted separately.

    Attributes
    ----------
    counts : Counter
        The number of calls of each operation so far, including failed calls.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._planned: dict[tuple[str, int], MakeError | _Torn] = {}
        self._delays: dict[str, float] = {}
        self._random = random.Random(0)
        self._rate = 0.0
        self._choices: list[tuple[Operation, MakeError]] = []

    def fail(self, operation: Operation, nth: int = 1, error: MakeError = EngineError) -> None:
        """Make the ``nth`` call from now on raise ``error``. This call then has no effect."""
        self._plan(operation, nth, error)

    def tear(
        self, nth: int = 1, *, share: float = 0.5, error: MakeError | None = EngineError
    ) -> None:
        """Make the ``nth`` write from now on incomplete, as on a faulty disk.

        Only the first part of the batch's rows is written, and ``share`` is the size of this part
        as a fraction of 1. Then the write raises ``error``. If ``error`` is None, the write returns
        as if it had succeeded.

        Raises
        ------
        ValueError
            ``share`` is not from 0 to 1, or ``nth`` is less than 1.
        """
        _check_share("share", share)
        self._plan("write", nth, _Torn(share, error))

    def delay(self, operation: Operation, seconds: float) -> None:
        """Delay every call of ``operation`` by ``seconds``. The value 0 removes the delay."""
        self._check(operation)
        self._delays[operation] = seconds

    def randomly(
        self,
        seed: int,
        rate: float,
        operations: Iterable[Operation] = ("write",),
        error: MakeError = EngineError,
    ) -> None:
        """Make each call fail with the probability ``rate``. Equal seeds make the same calls fail.

        Raises
        ------
        ValueError
            ``rate`` is not from 0 to 1, or an operation is unknown.
        """
        _check_share("rate", rate)
        choices = [(operation, error) for operation in operations]
        self._check(*(operation for operation, _ in choices))
        self._random = random.Random(seed)
        self._rate = rate
        self._choices = choices

    def calm(self) -> None:
        """Remove all faults and delays. The counts of the calls remain."""
        self._planned.clear()
        self._delays.clear()
        self._choices = []

    def armed(self, operation: Operation) -> bool:
        """Return True if the next or a later call of ``operation`` may fail."""
        planned = any(name == operation for name, _ in self._planned)
        return planned or any(name == operation for name, _ in self._choices)

    def _plan(self, operation: Operation, nth: int, fault: MakeError | _Torn) -> None:
        self._check(operation)
        if nth < 1:
            raise ValueError(f"the number of a call must be at least 1, not {nth}")
        self._planned[operation, self.counts[operation] + nth] = fault

    def _check(self, *operations: str) -> None:
        for operation in operations:
            if operation not in OPERATIONS:
                raise ValueError(
                    f"operation must be one of {', '.join(OPERATIONS)}, not {operation!r}"
                )

    def meet(self, operation: Operation) -> _Torn | None:
        """Count a call, and delay the call if a delay is set.

        If an error is planned for this call, raise it. If an incomplete write is planned for this
        call, return the plan. If nothing is planned, return None.
        """
        self.counts[operation] += 1
        if delay := self._delays.get(operation):
            time.sleep(delay)
        number = self.counts[operation]
        fault = self._planned.pop((operation, number), None)
        for name, error in self._choices:
            if fault is None and name == operation and self._random.random() < self._rate:
                fault = error
        if fault is None or isinstance(fault, _Torn):
            return fault
        raise fault(f"a planned fault: {operation} number {number}")


class _FaultyNamespace(WrappedNamespace):
    owner: FaultyEngine

    @property
    def fast_get(self) -> Callable[[bytes], bytes | None]:
        return self._fast_get

    def _fast_get(self, key: bytes) -> bytes | None:
        if self.owner.faults.armed("get"):
            raise EngineError(
                "fast_get cannot be used while a fault of get is planned; call get instead"
            )
        return self.get(key)

    def get(self, key: bytes) -> bytes | None:
        self.owner.faults.meet("get")
        return self.inner.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.owner.faults.meet("get_many")
        return self.inner.get_many(keys)

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        self.owner.faults.meet("scan")
        return self._chunks(self.inner.scan(lo, hi, reverse=reverse))

    def _chunks(self, scan: Iterator[Chunk]) -> Iterator[Chunk]:
        for chunk in scan:
            self.owner.faults.meet("chunk")
            yield chunk


class _FaultyDatabase(WrappedDatabase):
    owner: FaultyEngine

    def namespace(self, name: str) -> Namespace:
        self.owner.faults.meet("namespace")
        return super().namespace(name)

    def drop_namespace(self, name: str) -> None:
        self.owner.faults.meet("drop")
        self.inner.drop_namespace(name)

    def write(self, batch: Mapping[str, Rows]) -> None:
        torn = self.owner.faults.meet("write")
        if torn is None:
            self.inner.write(batch)
        else:
            self._tear(batch, torn)

    def write_large(self, namespace: str, rows: Rows) -> bool:
        torn = self.owner.faults.meet("write")
        if torn is None:
            return self.inner.write_large(namespace, rows)
        self._tear({namespace: rows}, torn)
        return True

    def _tear(self, batch: Mapping[str, Rows], torn: _Torn) -> None:
        self.inner.write(_part(batch, torn.share))
        if torn.error is not None:
            raise torn.error("a planned fault: an incomplete write")

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        self.owner.faults.meet("load")
        return self.inner.load(namespace, chunks)

    def snapshot(self) -> Snapshot:
        self.owner.faults.meet("snapshot")
        return super().snapshot()

    def checkpoint(self, target: Path) -> None:
        self.owner.faults.meet("checkpoint")
        self.inner.checkpoint(target)

    def sync(self) -> None:
        self.owner.faults.meet("sync")
        self.inner.sync()


class FaultyEngine(WrappedEngine):
    """An engine that passes calls to another engine, and fails as ``faults`` defines.

    ::

        faults = Faults()
        state = open_state(path, engine=FaultyEngine(RocksDBEngine(), faults))
        faults.fail("write", 3, StorageFullError)

    Parameters
    ----------
    inner : Engine
        The engine to which the calls are passed.
    faults : Faults
        The planned faults. They may be changed at any time.
    """

    database_type: ClassVar[type[WrappedDatabase]] = _FaultyDatabase
    namespace_type: ClassVar[type[WrappedNamespace]] = _FaultyNamespace

    def __init__(self, inner: Engine, faults: Faults) -> None:
        super().__init__(inner)
        self.faults = faults

    def open(self, root: Path, store: str, **named: Any) -> Database:
        self.faults.meet("open")
        return super().open(root, store, **named)

    def open_child(self, root: Path, store: str, child: str, **named: Any) -> Database:
        self.faults.meet("open")
        return super().open_child(root, store, child, **named)

    def drop_child(self, root: Path, store: str, child: str) -> None:
        self.faults.meet("drop")
        self.inner.drop_child(root, store, child)


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"{name} must be from 0 to 1, not {share}")


def _part(batch: Mapping[str, Rows], share: float) -> dict[str, Rows]:
    """Return the part of a batch that contains the first ``share`` (0 to 1) of its rows."""
    left = int(share * sum(len(rows.keys) for rows in batch.values()))
    part = {}
    for name, rows in batch.items():
        part[name] = Rows(rows.keys[:left], rows.values[:left], rows.deleted_ranges)
        left = max(0, left - len(rows.keys))
    return part
