"""The driver's side of a write: checks, publication and cleanup.

A job begins, its tasks upload, the job is closed, and one manifest is published. One of two
concurrent jobs publishes. Only :func:`vacuum` removes a closed job: a manifest may refer to it. A
publication may have succeeded although its answer was lost.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import CommitConflictError, KStoreError, SpecError, StateError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine, version
from kstore_core.spark.shards.routing import check_partitions
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.spark.shards.writing import ShardWriter

__all__ = ["WriteJob", "check_same_store"]


@dataclass(frozen=True, slots=True)
class WriteJob:
    """A write of a version of a store; tasks receive a copy."""

    root: Root
    spec: StoreSpec
    engine: str
    partitions: int
    mode: Literal["append", "overwrite"]
    version: int = 1  # to publish
    parents: Mapping[int, Shard] = field(default_factory=dict)  # that the version continues
    job: str = field(default_factory=lambda: uuid.uuid4().hex)  # uploads are in attempts/<job>

    @classmethod
    def plan(
        cls,
        root: Root,
        spec: StoreSpec,
        newest: Manifest | None,
        *,
        engine: str,
        partitions: int,
        mode: Literal["append", "overwrite"],
    ) -> WriteJob:
        """Plan a job that continues the newest version, if there is one; nothing is written.

        The errors are those of :func:`write_store`; a StateError also if a stream writes to the
        root.
        """
        check_partitions(partitions)
        check_shared_engine(engine)
        if root.storage.path is not None:
            from kstore_core.spark.live.stream_binding import check_not_streamed

            check_not_streamed(root.path)
        if newest is None:
            root.check_unused()
            return cls(root, spec, engine, partitions, mode)
        check_same_store(root, newest, spec, partitions, engine, appending=mode == "append")
        parents = {shard.shard: shard for shard in newest.shards} if mode == "append" else {}
        return cls(root, spec, engine, partitions, mode, newest.version + 1, parents)

    def begin(self) -> None:
        """Allow tasks to upload."""
        self.root.begin(self.job)

    def writer(self, *, partition_time: bool = False) -> ShardWriter:
        """Return the writer for the tasks."""
        from kstore_core.spark.shards.writing import ShardWriter

        return ShardWriter(
            self.root,
            self.job,
            self.spec,
            self.engine,
            self.partitions,
            self.parents,
            partition_time,
        )

    def publish(self, written: Iterable[Shard]) -> Manifest:
        """Publish a version of these shards and the other shards of the version before.

        A CommitConflictError, with nothing published, if another writer was first; a SpecError if
        two tasks wrote one shard; a StateError if the uploads of the tasks were removed.
        """
        manifest = self._manifest(written)
        self.check_begun()
        self.root.close(self.job)
        try:
            self.root.publish(manifest)
        except CommitConflictError:
            self.root.discard(self.job)
            raise
        with contextlib.suppress(OSError, KStoreError):
            self.root.keep_only(self.job, manifest)
        return manifest

    def check_begun(self) -> None:
        """Refuse to continue a discarded job."""
        if not self.root.has_begun(self.job):
            self.root.discard(self.job)
            raise StateError(
                f"{self.root}: the uploads of this job were removed before it was published. A "
                "vacuum removes them if its grace_s is shorter than the job; run the job again"
            )

    def discard(self) -> None:
        """Remove the uploads of the tasks, unless the job was closed; errors are suppressed."""
        with contextlib.suppress(OSError, KStoreError):
            if self.root.has_begun(self.job):
                self.root.discard(self.job)

    def _manifest(self, written: Iterable[Shard]) -> Manifest:
        shards: dict[int, Shard] = {}
        for shard in written:
            if shard.shard in shards:
                raise SpecError(
                    f"two tasks have records of shard {shard.shard}, and one task must have all of "
                    "them. Pass the DataFrame through kstore_core.spark.by_shard first, or write "
                    "it with kstore_core.spark.write_store"
                )
            shards[shard.shard] = shard
        return Manifest(
            version=self.version,
            created_ms=time.time_ns() // 1_000_000,
            job=self.job,
            mode=self.mode,
            engine=self.engine,
            partitions=self.partitions,
            spec=self.spec.describe(),
            shards=tuple(
                shards.get(number) or self.parents.get(number) or Shard(number)
                for number in range(self.partitions)
            ),
            written_by=f"kstore {version()}",
        )


def check_same_store(
    root: Root, newest: Manifest, spec: StoreSpec, partitions: int, engine: str, *, appending: bool
) -> None:
    """Refuse to continue another store, or to hide another kind of store behind a new version."""
    given: dict[str, Any] = {**spec.describe(), "partitions": partitions, "engine": engine}
    sizes = {"partitions": newest.partitions, "engine": newest.engine}
    there: dict[str, Any] = {**newest.spec, **sizes}
    always = ["name", "shape"]
    fixed = list(always)
    if appending:
        fixed += ["format", "key", "value", "segment_interval_ms", "window_size_ms"]
        fixed += ["retain_duplicates", "time_ordered", "indexed", "partitions", "engine"]
    differing = [name for name in fixed if there.get(name) != given.get(name)]
    differences = [
        f"{name} is {there.get(name)!r} there and {given.get(name)!r} here" for name in differing
    ]
    if differences:
        hint = "Use another root"
        if set(differing).isdisjoint(always):
            hint += ", or mode='overwrite' to start an empty version"
        raise SpecError(
            f"{root} has another store at version {newest.version}: "
            f"{'; '.join(differences)}. {hint}"
        )
