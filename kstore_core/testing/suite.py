"""The base of the suites: an engine, its state directory, and the cleanup after each test."""

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
"""The number of failed tests when the first test of a suite began."""

Raised = TypeVar("Raised", bound=BaseException)


class Suite:
    """Base of the suites.

    Attributes
    ----------
    variants : mapping of str to mapping
        Named options of the engine. The whole suite runs once with the engine of
        :meth:`make_engine`, and once with each of these options.
    random_after_failures : bool
        True to run random tests after another test of the suite has failed. They run last, and
        are skipped by default: they would search for a short way to the same fault.
    root : Path
        The state directory of the test; it does not exist yet.
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
        """Return a new engine. This is the only method that an author has to write."""
        raise NotImplementedError("define make_engine(self), which returns an Engine")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.variants and "engine_variant" in metafunc.fixturenames:
            metafunc.parametrize("engine_variant", [None, *self.variants], indirect=True)

    @pytest.fixture
    def engine_variant(self, request: pytest.FixtureRequest) -> None:
        """The options of this run."""
        name = getattr(request, "param", None)
        self._options = None if name is None else self.variants[name]

    @pytest.fixture(autouse=True)
    def _simple_promises_first(self, request: pytest.FixtureRequest) -> None:
        session, suite = request.session, type(self)
        before = session.stash.setdefault(_FAILED_BEFORE, {}).setdefault(suite, session.testsfailed)
        random = getattr(request.function, "at_random", False)
        if random and not self.random_after_failures and session.testsfailed > before:
            pytest.skip(
                "another test of this suite has failed, and random tests would find the same; "
                "repair that first, or set random_after_failures = True"
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
        """Another engine with the options of this run."""
        engine = self.make_engine()
        return engine if self._options is None else type(engine)(self._options)

    @property
    def able(self) -> Capabilities:
        """The capabilities of the engine; the suite reads nothing else of it."""
        return self.engine.capabilities


def files_are_sound(engine: Engine, root: Path) -> None:
    """Check that the engine reports no fault in the files of a closed store.

    ``kstore verify`` and ``kstore doctor`` call a store corrupt if ``file_faults`` reports a fault.
    So writes, drops, compactions and kills must leave none.
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
    """Check that ``use`` raises ``kind``, with all ``names`` in its message; return the error."""
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
