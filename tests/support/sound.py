"""State directories that a test leaves are sound: by ``verify`` and by ``doctor``.

Every test that upgrades, migrates, restores, copies or drops ends with this, by the fixture
``left_sound`` or by a call where it has directories of its own. Both commands run in full, but in
this process, where a store takes milliseconds; ``doctor`` for the first, the second, the fourth,
the eighth, … directory with the same stores that a package of tests leaves. As users run them, with
a process of their own that reads, they take a quarter of a second and more: so ``verify`` runs for
the first of each kind of store that a package of tests leaves on RocksDB, and both for the first
store on each engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from unittest import mock

from kstore_core import open_state
from kstore_core.errors import StateError
from kstore_core.maintenance.doctor import examine
from kstore_core.maintenance.verify import Finding, verify
from kstore_core.maintenance.verify.protocol import Job, Survey, Unit
from kstore_core.maintenance.verify.worker import Worker
from kstore_core.spec import StoreSpec

__all__ = ["assert_left_sound", "assert_sound", "in_one_process"]

AROUND = {"leftover", "disk", "offsets", "permissions"}
"""What doctor finds beside stores that are sound."""

_DATABASES = ("CURRENT", "data.mdb")

_seen: set[tuple[str, ...]] = set()

_times: Counter[tuple[str, ...]] = Counter()


class Here:
    """Does in this process what verify and doctor have a child process do."""

    def __init__(self, job: Job, patience_s: float) -> None:
        self._tell: Callable[[str, Any], None] = lambda name, content: None
        self._worker = Worker(job, lambda name, content: self._tell(name, content))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def do(self, unit: Unit, told: Callable[[str, Any], None]) -> Survey | None:
        self._tell = told
        found: Survey | None = self._worker.do(unit)
        return found


@contextmanager
def in_one_process() -> Iterator[None]:
    """Have ``verify`` and ``doctor`` read in this process, which data must not be able to end."""
    with (
        mock.patch("kstore_core.maintenance.verify.verifying.Child", Here),
        mock.patch("kstore_core.maintenance.doctor.store_checks.Child", Here),
        mock.patch("kstore_core.maintenance.doctor.examining.rocksdb_versions", return_value=()),
    ):
        yield


def assert_left_sound(scratch: Path, test: str) -> None:
    """Hold every state directory below ``scratch`` to being sound."""
    for root in sorted(_roots(scratch)):
        assert_sound(root, test=test)


def assert_sound(
    root: Path, spec: StoreSpec | None = None, *, besides: str = "", test: str = ""
) -> None:
    """Hold a state directory that nobody has open to what ``verify`` and ``doctor`` say of it.

    Parameters
    ----------
    root : Path
    spec : StoreSpec, optional
        What its only store is; taken where the directory does not tell.
    besides : str
        A finding of ``verify`` that the test expects, by its ``what``.
    test : str
        Names what was done: for the first of a kind the commands run in processes of their own.
    """
    if spec is not None:
        with open_state(root, read_only=True) as state:
            spec = spec if state.stored_spec(spec.name) is None else None
    stores = (*root.iterdir(), *root.glob("rocksdb/*"), *root.glob("lmdb/*"))
    held = (test, *sorted(path.name for path in stores))
    _times[held] += 1
    with in_one_process():
        _verify(root, spec, besides)
        if _times[held].bit_count() == 1:
            _examine(root)
    if test:
        with open_state(root, read_only=True) as state:
            engine = (test, state.engine.name)
            kinds = {(*engine, *_kind(state, store)) for store in state.stores()}
        if engine not in _seen:
            _examine(root)
        if engine not in _seen or ("rocksdb" in engine and not kinds <= _seen):
            _verify(root, spec, besides)
        _seen.update(kinds, {engine})


def _verify(root: Path, spec: StoreSpec | None, besides: str) -> None:
    verified = verify(root, None if spec is None else spec.name, spec=spec)
    found = [finding for finding in _serious(verified.findings) if finding.what != besides]
    assert not found, f"verify of {root}: {found}"


def _examine(root: Path) -> None:
    found = [finding for finding in _serious(examine(root).findings) if finding.what not in AROUND]
    assert not found, f"doctor of {root}: {found}"


def _serious(findings: list[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity != "note")


def _kind(state: Any, store: str) -> tuple[str, ...]:
    try:
        stored = state.stored_spec(store)
    except StateError:
        stored = None
    return () if stored is None else (stored.shape, stored.format.name, str(stored.time_ordered))


def _roots(scratch: Path) -> set[Path]:
    """State directories: those that have a database of an engine where it belongs."""
    found = set()
    for name in _DATABASES:
        for file in scratch.rglob(name):
            store = file.parent
            is_one = store.parent.name in ("rocksdb", "lmdb") or store.name.startswith(
                (f"{store.parent.name}.", f"{store.parent.name}-")
            )
            if is_one:
                found.add(store.parent.parent)
    return found
