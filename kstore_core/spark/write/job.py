"""The checks, the publication and the cleanup of a write, which run on the driver.

After the tasks of a job have uploaded their shards, the driver closes the job and publishes one
manifest. Of two concurrent jobs only one can publish. If the answer to a publication was lost, the
publication may have succeeded, and the manifest may refer to the uploads. So only :func:`vacuum`
removes the uploads of a closed job.
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
    """The write of one version of a store.

    Attributes
    ----------
    root : Root
        The root to write to.
    spec : StoreSpec
        The spec of the store.
    engine : str
        The name of the engine of the shards.
    partitions : int
        The number of shards.
    mode : str
        ``"append"`` to continue the newest version, or ``"overwrite"``.
    version : int
        The number of the version to publish.
    parents : mapping
        The published shards that the version continues, by number.
    job : str
        The name of the job, whose uploads are in ``attempts/<job>``.
    """

    root: Root
    spec: StoreSpec
    engine: str
    partitions: int
    mode: Literal["append", "overwrite"]
    version: int = 1
    parents: Mapping[int, Shard] = field(default_factory=dict)
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

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
        """Check the arguments of a write, and return its job. Nothing is written.

        ``newest`` is the manifest of the newest version, or None if the root has no version. The
        errors are those of :func:`write_store`. Also raise a StateError if a stream writes to the
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
        """Write the marker file of the job, so that its tasks may upload files."""
        self.root.begin(self.job)

    def writer(self, *, partition_time: bool = False) -> ShardWriter:
        """Return the writer that the tasks of the job receive."""
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
        """Publish the version, and return its manifest.

        The version consists of the shards in ``written``, and of the parents of all other shards.
        Raise a CommitConflictError, and publish nothing, if another writer has published first.
        Raise a SpecError if two tasks have written the same shard, and a StateError if the uploads
        of the tasks were removed.
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
        """Raise a StateError if the job was discarded, or if a vacuum has removed its uploads."""
        if not self.root.has_begun(self.job):
            self.root.discard(self.job)
            raise StateError(
                f"{self.root}: the uploads of this job were removed before the job published them. "
                "A vacuum removes them if its grace_s is shorter than the job takes; run the job "
                "again"
            )

    def discard(self) -> None:
        """Remove the uploads of the job, unless the job is closed. Errors are ignored."""
        with contextlib.suppress(OSError, KStoreError):
            if self.root.has_begun(self.job):
                self.root.discard(self.job)

    def _manifest(self, written: Iterable[Shard]) -> Manifest:
        shards: dict[int, Shard] = {}
        for shard in written:
            if shard.shard in shards:
                raise SpecError(
                    f"two tasks have records of shard {shard.shard}, but one task must have all "
                    "records of a shard. Pass the DataFrame through kstore_core.spark.by_shard "
                    "first, or write the DataFrame with kstore_core.spark.write_store"
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
    """Raise a SpecError if the newest version is another store than the write describes.

    The name and the shape of the store must be equal. If the write appends, the format, the
    serdes and all other properties that determine the stored bytes must be equal too.
    """
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
        f"{name} is {there.get(name)!r} in the root and {given.get(name)!r} in this write"
        for name in differing
    ]
    if differences:
        hint = "Use another root"
        if set(differing).isdisjoint(always):
            hint += ", or mode='overwrite' to start an empty version"
        raise SpecError(
            f"{root} contains another store at version {newest.version}: "
            f"{'; '.join(differences)}. {hint}"
        )
