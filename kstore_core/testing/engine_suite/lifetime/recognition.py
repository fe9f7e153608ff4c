"""Tests that an engine recognises its own directories, and no other directories."""

from __future__ import annotations

from collections.abc import Iterator

from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.engine import Engine
from kstore_core.errors import EngineUnavailableError
from kstore_core.testing.engine_suite.base import STORE, EnginePart
from kstore_core.testing.engine_suite.lifetime.opening import trace

__all__ = ["RecognitionPromises"]


class RecognitionPromises(EnginePart):
    """Tests of ``Engine.recognises``."""

    def test_an_engine_recognises_what_it_wrote(self) -> None:
        assert not self.engine.recognises(self.root), "no engine recognises a missing directory"
        assert not self.root.exists(), "recognises() makes nothing"
        self.root.mkdir(parents=True)
        (self.root / STORE).mkdir()
        assert not self.engine.recognises(self.root), "no engine recognises an empty directory"
        (self.root / STORE).rmdir()
        database = self.open("first")
        assert self.engine.recognises(self.root), "recognises() locks nothing"
        database.close()
        before = trace(self.root)
        assert self.engine.recognises(self.root), "an engine recognises what it wrote"
        if not self.able.persistent:
            return
        assert self.new_engine().recognises(self.root), (
            "another engine object recognises the directory"
        )
        assert not self.engine.recognises(self.root.parent), (
            "an engine does not recognise the parent of a state directory"
        )
        assert trace(self.root) == before, "recognises() writes nothing"

    def test_an_engine_recognises_children(self) -> None:
        if not self.able.children:
            return
        self.engine.open_child(self.root, STORE, f"{STORE}.10").close()
        assert self.new_engine().recognises(self.root), (
            "an engine recognises a store that has children only"
        )
        self.engine.drop_child(self.root, STORE, f"{STORE}.10")
        assert not self.engine.recognises(self.root), (
            "an engine does not recognise a directory after its last drop"
        )

    def test_nobody_recognises_what_another_engine_wrote(self) -> None:
        self.open().close()
        for other in self._others():
            root = self.root.parent / other.name
            assert not other.recognises(self.root), (
                f"the engine {other.name!r} must not recognise the files of {self.engine.name!r}, "
                "because each engine must have its own layout"
            )
            other.open(root, STORE).close()
            assert not self.engine.recognises(root), (
                f"an engine recognises its own files, not those of {other.name!r}"
            )

    def _others(self) -> Iterator[Engine]:
        """Iterate over the other installed engines that can be loaded and that write files."""
        for name in sorted({announced.name for announced in installed_engines()}):
            try:
                kind = engine_class(name)
            except EngineUnavailableError:
                continue
            if name != self.engine.name and kind.capabilities.persistent:
                yield kind()
