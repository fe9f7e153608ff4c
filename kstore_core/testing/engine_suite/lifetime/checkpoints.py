"""Tests that a checkpoint is complete and independent, even if its database is open."""

from __future__ import annotations

from pathlib import Path

from kstore_core.engine import Rows
from kstore_core.errors import UnsupportedError
from kstore_core.testing.engine_suite.base import EnginePart, numbered, path_under, put, read
from kstore_core.testing.explaining import same
from kstore_core.testing.suite import refuses


class CheckpointPromises(EnginePart):
    """Tests of ``checkpoint``. An engine without checkpoints must raise UnsupportedError."""

    @property
    def copies(self) -> Path:
        return self.root.parent / "copies"

    def test_a_checkpoint_is_a_database_of_its_own(self) -> None:
        database = self.open()
        target = path_under(self.copies, database, self.root)
        rows = numbered(3000)
        put(database, rows)
        for name in ("offsets", "other"):
            put(database, {b"n": name.encode()}, name)
        database.namespace("empty")
        if not self.able.checkpoint:
            refuses(
                UnsupportedError,
                lambda: database.checkpoint(target),
                "checkpoint without capabilities.checkpoint",
            )
            assert not target.exists(), "a refused checkpoint makes no files"
            return
        database.checkpoint(target)
        put(database, {b"%08d" % 0: b"changed", b"zz": b"later"})
        copy = self.open(root=self.copies, read_only=True)
        same(read(copy), list(rows.items()), "a checkpoint has the rows as of its call")
        assert sorted(copy.namespaces()) == ["default", "empty", "offsets", "other"], (
            "a checkpoint has every namespace"
        )
        assert copy.namespace("offsets").get(b"n") == b"offsets", (
            "a checkpoint has the rows of every namespace"
        )
        copy.close()
        copy = self.open(root=self.copies)
        copy.write({"default": Rows([b"its own"], [b"row"], [(b"", None)])})
        assert len(read(database)) == 3001, "a write to the copy does not change the source"
        database.write({"default": Rows(deleted_ranges=[(b"", None)])})
        assert read(copy) == [(b"its own", b"row")], (
            "a write to the source does not change the copy"
        )

    def test_an_existing_target_is_left_alone(self) -> None:
        database = self.filled(numbered(10))
        if not self.able.checkpoint:
            return
        target = path_under(self.copies, database, self.root)
        database.checkpoint(target)
        put(database, {b"later": b"row"})
        refuses(
            FileExistsError,
            lambda: database.checkpoint(target),
            "checkpoint to a target that exists",
            target.name,
        )
        copy = self.open(root=self.copies, read_only=True)
        assert len(read(copy)) == 10, "a refused checkpoint leaves its target unchanged"

    def test_an_existing_directory_is_left_alone(self) -> None:
        database = self.filled(numbered(10))
        target = self.root.parent / "exists"
        target.mkdir(parents=True)
        (target / "file").touch()
        if self.able.checkpoint and self.able.persistent:
            refuses(
                FileExistsError,
                lambda: database.checkpoint(target),
                "checkpoint to a directory that exists",
                "exists",
            )
        assert [file.name for file in target.iterdir()] == ["file"], (
            "a refused checkpoint leaves its target unchanged"
        )
