"""The base class of all test suites of engines."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from kstore_core.engine import Capabilities, Engine

__all__ = ["Suite", "files_are_sound", "refuses"]

_FAILED_BEFORE = pytest.StashKey[dict[type, int]]()
"""The number of tests that had failed when the first test of a suite began."""

Raised = TypeVar("Raised", bound=BaseException)


class Suite:
    """The base class of the test suites, which cleans up after each test.

    Attributes
    ----------
    variants : mapping of str to mapping
        The variants of the engine: a name, and the options of the engine. The whole suite runs once
        with the engine of :meth:`make_engine`, and once more for each variant.
    random_after_failures : bool
        True to run the random tests even if another test of the suite has failed. By default, the
        random tests are then skipped, because they would find the same fault.
    root : Path
        The path of the state directory of the test, which does not exist yet.
    engine : Engine
        The engine of the whole test.
    """

    pytestmark: ClassVar[list[pytest.MarkDecorator]] = [
        pytest.mark.filterwarnings("error::ResourceWarning"),
        pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
    ]
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    random_after_failures: ClassVar[bool] = False
    root: Path
    engine: Engine
    _options: Mapping[str, Any] | None = None

    def make_engine(self) -> Engine:
        """Return a new engine. A suite of an engine has to define only this method."""
        raise NotImplementedError(
            f"{type(self).__name__} must define make_engine(self), which returns an Engine"
        )

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.variants and "engine_variant" in metafunc.fixturenames:
            metafunc.parametrize("engine_variant", [None, *self.variants], indirect=True)

    @pytest.fixture
    def engine_variant(self, request: pytest.FixtureRequest) -> None:
        """The options of the engine in this run of the suite."""
        name = getattr(request, "param", None)
        self._options = None if name is None else self.variants[name]

    @pytest.fixture(autouse=True)
    def _simple_promises_first(self, request: pytest.FixtureRequest) -> None:
        session, suite = request.session, type(self)
        before = session.stash.setdefault(_FAILED_BEFORE, {}).setdefault(suite, session.testsfailed)
        random = getattr(request.function, "at_random", False)
        if random and not self.random_after_failures and session.testsfailed > before:
            pytest.skip(
                "another test of this suite has failed, and random tests would find the same "
                "fault; repair this fault first, or set random_after_failures = True"
            )

    @pytest.fixture(autouse=True)
    def _engine_for_a_test(self, tmp_path: Path, engine_variant: None) -> Iterator[None]:
        self.root = tmp_path / "state" / "0_0"
        self.engine = self.new_engine()
        with ExitStack() as self._opened:
            yield
        gc.collect()  # a handle that was dropped without a close warns in this test
        files_are_sound(self.engine, self.root)

    def new_engine(self) -> Engine:
        """Return a new engine with the options of this run."""
        engine = self.make_engine()
        return engine if self._options is None else type(engine)(self._options)

    @property
    def able(self) -> Capabilities:
        """The capabilities of the engine, which determine what the suite expects."""
        return self.engine.capabilities


def files_are_sound(engine: Engine, root: Path) -> None:
    """Check that the engine reports no fault in the files of a closed store.

    ``kstore verify`` and ``kstore doctor`` report a store as corrupt if ``file_faults`` reports a
    fault. So no write, drop, compaction or kill may cause such a fault.
    """
    if not root.is_dir():
        return
    in_children = engine.parents(root)
    for store in {*engine.stores(root), *in_children}:
        children = engine.children(root, store) if store in in_children else [None]
        for child in children:
            faults = [*engine.file_faults(root, store, child)]
            assert not faults, f"file_faults of {store!r}, child {child!r}, must be empty: {faults}"


def refuses(kind: type[Raised], use: Callable[[], object], what: str, *names: str) -> Raised:
    """Check that ``use`` raises ``kind``, and return this error.

    The message of the error must contain all ``names``.
    """
    try:
        result = use()
    except kind as error:
        text = str(error)
        missing = [name for name in names if name not in text]
        assert not missing, f"{what}: the message of {kind.__name__} lacks {missing}: {text!r}"
        return error
    except Exception as error:
        raise AssertionError(
            f"{what} must raise {kind.__name__}, but raised {type(error).__name__}: {error}"
        ) from error
    raise AssertionError(f"{what} must raise {kind.__name__}, but returned {result!r}")
