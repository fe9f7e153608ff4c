"""Jobs, crashes and vacuums in any order: every listed version has its files, as written."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kstore_core.errors import CommitConflictError
from kstore_core.spark import vacuum
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.write.job import WriteJob
from tests.spark.root.manifests import SPEC
from tests.spark.support.faults import FaultyStorage, Killed, files_below, referred

SHARDS = 3
Contents = dict[int, dict[str, bytes]]


class Roots(RuleBasedStateMachine):
    """A root, and what each of its versions holds: files by shard."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-roots-"))
        self.root = self.scratch / "root"
        self.versions: dict[int, Contents] = {}
        self.number = 0
        self.open: tuple[WriteJob, list[Shard], Contents] | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.scratch)

    def _built(
        self, root: Root, mode: Any, shards: set[int]
    ) -> tuple[WriteJob, list[Shard], Contents]:
        """A job that has written these shards: a file more in each, and one rewritten."""
        newest = root.newest()
        job = WriteJob.plan(root, SPEC, newest, engine="rocksdb", partitions=SHARDS, mode=mode)
        job.begin()
        before = self.versions.get(job.version - 1, {}) if mode == "append" else {}
        contents, written = dict(before), []
        for shard in sorted(shards):
            self.number += 1
            here = self.scratch / f"shard-{self.number}"
            parent = job.parents.get(shard, Shard(shard))
            stamps: Any = {}
            if parent.path is not None:
                stamps = root.fetch(parent, here)
            here.mkdir(exist_ok=True)
            (here / f"{self.number}.sst").write_bytes(b"%d" % self.number)
            (here / "CURRENT").write_bytes(b"%d" % self.number)
            contents[shard] = {
                **before.get(shard, {}),
                f"{self.number}.sst": b"%d" % self.number,
                "CURRENT": b"%d" % self.number,
            }
            place = f"{root.attempts(job.job)}/{shard}-{self.number}/0_{shard}"
            written.append(Shard(shard, place, root.upload(here, place, parent, stamps)))
        return job, written, contents

    modes = st.sampled_from(["append", "overwrite"])
    some = st.sets(st.integers(0, SHARDS - 1))

    @rule(mode=modes, shards=some)
    def write(self, mode: str, shards: set[int]) -> None:
        job, written, contents = self._built(Root.at(self.root), mode, shards)
        self.versions[job.publish(written).version] = contents

    @rule(mode=modes, shards=some)
    def begin_another(self, mode: str, shards: set[int]) -> None:
        self.open = self._built(Root.at(self.root), mode, shards)

    @precondition(lambda self: self.open is not None)
    @rule()
    def publish_the_other(self) -> None:
        assert self.open is not None
        job, written, contents = self.open
        self.open = None
        if job.version in self.versions or max(self.versions, default=0) >= job.version:
            with contextlib.suppress(CommitConflictError):
                job.publish(written)
                raise AssertionError("two writers published one version")
        else:
            self.versions[job.publish(written).version] = contents

    @rule(
        mode=modes, shards=some, at=st.integers(0, 25), how=st.sampled_from(["dies", "dies after"])
    )
    def die(self, mode: str, shards: set[int], at: int, how: str) -> None:
        storage = FaultyStorage(LocalFiles(self.root), at, how)
        try:
            job, written, contents = self._built(Root(storage), mode, shards)  # type: ignore[arg-type]
            try:
                job.publish(written)
            finally:
                if Root.at(self.root).versions()[-1:] == [job.version]:
                    self.versions[job.version] = contents
        except Killed:
            pass

    @rule(keep=st.one_of(st.none(), st.integers(1, 3)))
    def clear(self, keep: int | None) -> None:
        self.open = None  # a job that took longer than the grace time: see test_write_job
        done = vacuum(self.root, grace_s=0, keep_versions=keep)
        for version in done.versions:
            del self.versions[version]
        assert keep is None or len(self.versions) <= keep
        assert files_below(self.root) == referred(Root.at(self.root))

    @invariant()
    def every_version_is_whole(self) -> None:
        home = Root.at(self.root)
        assert home.versions() == sorted(self.versions)
        for version, contents in self.versions.items():
            found = {}
            for shard in home.load(version).shards:
                if shard.path is not None:
                    with home.local_shard(shard) as path:
                        found[shard.shard] = {
                            file.path: (path / file.path).read_bytes() for file in shard.files
                        }
            assert found == contents


class TestRoots(Roots.TestCase):  # type: ignore[misc, name-defined]
    """Run as a test."""

    settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
