"""What the parts of the engine suite share: an engine, a root, and databases that end up closed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from kstore_core.engine import Capabilities, Database, Durability, Engine, Namespace, Rows

__all__ = ["STORE", "EnginePart", "Pairs", "numbered", "put", "read", "refuses", "within"]

STORE = "orders"
"""The store of most tests. Messages must name it."""

Pairs = list[tuple[bytes, bytes]]

Raised = TypeVar("Raised", bound=BaseException)


class EnginePart:
    """Base of every part of the suite.

    Attributes
    ----------
    variants : mapping of str to mapping
        Options by a name for them; the whole suite runs once with each. None runs with what
        :meth:`make_engine` gives, and with nothing else.
    root : Path
        The state directory of the test; nothing is there yet.
    engine : Engine
        One engine, the same for the whole test.
    """

    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    root: Path
    engine: Engine
    _options: Mapping[str, Any] | None = None

    def make_engine(self) -> Engine:
        """A new engine. The one method that an author writes."""
        raise NotImplementedError("an engine suite has a make_engine(self) that returns an Engine")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.variants and "engine_variant" in metafunc.fixturenames:
            metafunc.parametrize("engine_variant", [None, *self.variants], indirect=True)

    @pytest.fixture
    def engine_variant(self, request: pytest.FixtureRequest) -> None:
        """The options of this run."""
        name = getattr(request, "param", None)
        self._options = None if name is None else self.variants[name]

    @pytest.fixture(autouse=True)
    def _engine_for_a_test(self, tmp_path: Path, engine_variant: None) -> Iterator[None]:
        self.root = tmp_path / "state" / "0_0"
        self.engine = self.new_engine()
        with ExitStack() as self._opened:
            yield
        gc.collect()  # what was dropped without a close warns within the test that did it

    def new_engine(self) -> Engine:
        """Another engine with the options of this run."""
        engine = self.make_engine()
        return engine if self._options is None else type(engine)(self._options)

    @property
    def able(self) -> Capabilities:
        """What the engine says of itself; the suite asks nothing else."""
        return self.engine.capabilities

    def open(
        self,
        store: str = STORE,
        *,
        durability: Durability = "process",
        read_only: bool = False,
        root: Path | None = None,
    ) -> Database:
        """A database that is closed at the end of the test."""
        database = self.engine.open(
            root or self.root, store, durability=durability, read_only=read_only
        )
        self._opened.callback(database.close)
        return database

    def reopen(self, database: Database, *, read_only: bool = False) -> Database:
        """Close ``database`` and open it again, by another engine object where rows persist."""
        database.close()
        if self.able.persistent:
            self.engine = self.new_engine()
        return self.open(read_only=read_only)

    def filled(self, rows: Mapping[bytes, bytes], **arguments: Any) -> Database:
        """A database whose default namespace holds ``rows``."""
        database = self.open(**arguments)
        put(database, rows)
        return database


def put(database: Database, rows: Mapping[bytes, bytes | None], namespace: str = "default") -> None:
    """Write rows in one batch; the namespace is made where it is missing."""
    database.namespace(namespace)
    keys = sorted(rows)
    database.write({namespace: Rows(keys, [rows[key] for key in keys])})


def read(chunks: Iterable[Any] | Namespace) -> Pairs:
    """Every row of a scan, or of a namespace; each chunk is held to what the SPI promises of it."""
    rows: Pairs = []
    for chunk in chunks.scan() if isinstance(chunks, Namespace) else chunks:
        keys, values = chunk
        assert type(keys) is list, f"a chunk is a pair of lists, not of {type(keys).__name__}"
        assert type(values) is list, f"a chunk is a pair of lists, not of {type(values).__name__}"
        assert keys, "a chunk is never empty; a scan without further rows ends"
        assert len(keys) == len(values), "the keys and the values of a chunk are parallel"
        assert {*map(type, keys), *map(type, values)} == {bytes}, "keys and values are bytes"
        rows += zip(keys, values, strict=True)
    return rows


def numbered(count: int, value: bytes = b"v", start: int = 0) -> dict[bytes, bytes]:
    """Rows with ascending keys."""
    return {b"%08d" % number: value for number in range(start, start + count)}


def within(
    rows: Mapping[bytes, bytes], lo: bytes | None, hi: bytes | None, *, reverse: bool = False
) -> Pairs:
    """What a scan of ``rows`` has to give: ``lo <= key < hi`` in unsigned order, or backwards."""
    return [
        (key, rows[key])
        for key in sorted(rows, reverse=reverse)
        if (lo is None or lo <= key) and (hi is None or key < hi)
    ]


def refuses(kind: type[Raised], use: Callable[[], object], what: str, *names: str) -> Raised:
    """Check that ``use`` raises ``kind`` and that the message has all ``names``; the error."""
    try:
        result = use()
    except kind as error:
        text = str(error)
        missing = [name for name in names if name not in text]
        assert not missing, f"{what}: the message of {kind.__name__} names {missing}: {text!r}"
        return error
    except Exception as error:
        raise AssertionError(
            f"{what} raises {kind.__name__}, not {type(error).__name__}: {error}"
        ) from error
    raise AssertionError(f"{what} raises {kind.__name__}; it gave {result!r}")
