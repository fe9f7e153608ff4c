"""The driver's part of a write, which checks, publishes and cleans up.

After the tasks of a job have uploaded their shards, the driver closes the job and publishes one
manifest. If two jobs write at the same time, only one of them can publish its manifest.

If the storage does not answer the request to publish, the driver cannot know whether the manifest
was published. The driver then does not remove the uploads of the job, because the manifest may
refer to them. If no manifest refers to the uploads, :func:`vacuum` removes them later.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.checks import check_partitions
from kstore_core.errors import CommitConflictError, KStoreError, SpecError, StateError
from kstore_core.spark.live.stream_binding import check_not_streamed
from kstore_core.spark.remote.layout import layout_of
from kstore_core.spark.root.manifest import Manifest, Shard, manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine, version
from kstore_core.spark.runtime.server import is_retry
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.spark.shards.writing import ShardWriter

__all__ = ["DEFAULT_ENGINE", "WriteJob", "check_same_store"]

DEFAULT_ENGINE = "rocksdb"
"""The engine of the shards of a new root."""


@dataclass(frozen=True, slots=True)
class WriteJob:
    """A job that writes one version of a store.

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
        ``"append"`` to continue the newest version, ``"overwrite"`` to start with an empty store,
        or ``"rescale"`` to move the rows of the newest version to another number of shards.
    version : int
        The number of the version to publish.
    parents : mapping
        The shards of the newest version, by their numbers, if the job appends. Empty for other
        jobs.
    job : str
        The name of the job. The tasks upload their files to ``attempts/<job>``.
    """

    root: Root
    spec: StoreSpec
    engine: str
    partitions: int
    mode: Literal["append", "overwrite", "rescale"]
    version: int = 1
    parents: Mapping[int, Shard] = field(default_factory=dict)
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def plan(
        cls,
        root: Root,
        spec: StoreSpec | None,
        newest: Manifest | None,
        *,
        engine: str | None,
        partitions: int | None,
        mode: Literal["append", "overwrite"],
    ) -> WriteJob:
        """Check the arguments of a write, and return its job, but write nothing.

        ``newest`` is the manifest of the newest version, or None if the root has no version. If
        ``spec``, ``engine`` or ``partitions`` is None, the job takes this value from the newest
        version. The errors are those of :func:`write_store`. A StateError is also raised if the
        root belongs to a stream of :func:`stream_into`.
        """
        if newest is None:
            if spec is None or partitions is None:
                raise SpecError(
                    f"{root} has no version yet, so its store is unknown; pass a spec and the "
                    "number of partitions. With format('kstore'), pass the options 'spec' (the "
                    "text that kstore_core.spark.spec_json returns) and 'partitions'"
                )
            engine = engine or DEFAULT_ENGINE
        else:
            spec = manifest_spec(newest, None, str(root)) if spec is None else spec
            partitions = newest.partitions if partitions is None else partitions
            engine = engine or newest.engine
        if not isinstance(spec, StoreSpec):
            raise TypeError(
                f"spec={spec!r} is {type(spec).__name__}, not a StoreSpec; make a spec with a "
                "function of kstore_core.stores"
            )
        check_partitions(partitions)
        check_shared_engine(engine)
        check_not_streamed(layout_of(root.storage))
        if newest is None:
            root.check_unused()
            return cls(root, spec, engine, partitions, mode)
        check_same_store(root, newest, spec, partitions, engine, appending=mode == "append")
        parents = {shard.shard: shard for shard in newest.shards} if mode == "append" else {}
        return cls(root, spec, engine, partitions, mode, newest.version + 1, parents)

    def begin(self) -> None:
        """Write the marker file of the job, so that its tasks may upload files."""
        self.root.begin(self.job)

    def writer(self, *, partition_time: bool = False, run_bytes: int | None = None) -> ShardWriter:
        """Return the writer that the tasks of the job receive."""
        from kstore_core.spark.shards.spool import DEFAULT_RUN_BYTES
        from kstore_core.spark.shards.writing import ShardWriter

        return ShardWriter(
            self.root,
            self.job,
            self.spec,
            self.engine,
            self.partitions,
            self.parents,
            partition_time,
            DEFAULT_RUN_BYTES if run_bytes is None else run_bytes,
        )

    def publish(self, written: Iterable[Shard]) -> Manifest:
        """Publish the version, and return its manifest.

        ``written`` contains the shards that the tasks have written. Each other shard is the shard
        of ``parents``, or is empty. Raise a CommitConflictError, and publish nothing, if another
        writer has already published this version. Raise a SpecError if two tasks have written the
        same shard. Raise a StateError if the uploads of the tasks were removed.
        """
        manifest = self.manifest(written)
        self.publish_manifest(manifest)
        return manifest

    def publish_manifest(self, manifest: Manifest) -> None:
        """Publish the version of ``manifest``, which :meth:`manifest` returned.

        The errors are those of :meth:`publish`. A task of Spark may call this method, and Spark may
        run the task again after its worker died. If the first call has published the version, the
        second call succeeds. If the first call was interrupted during the publication, the second
        call changes nothing and raises a StateError.
        """
        if is_retry() and not self.root.has_begun(self.job):
            if (
                self.version in self.root.versions()
                and self.root.load(self.version).job == self.job
            ):
                return
            raise StateError(
                f"the worker that was publishing version {self.version} of {self.root} died, so "
                "the version may or may not be published. Look for a version with the job "
                f"{self.job!r} in kstore_core.spark.read_metadata(spark, root, 'versions'), and "
                "if there is no such version, run the write again"
            )
        self.check_begun()
        self.root.close(self.job)
        try:
            self.root.publish(manifest)
        except CommitConflictError:
            self.root.discard(self.job)
            raise
        with contextlib.suppress(OSError, KStoreError):
            self.root.keep_only(self.job, manifest)

    def check_begun(self) -> None:
        """Raise a StateError if the job was discarded, or if a vacuum has removed its uploads."""
        if not self.root.has_begun(self.job):
            self.root.discard(self.job)
            raise StateError(
                f"this job cannot publish a version of {self.root}, because its uploads were "
                "removed. A vacuum removes uploads that are older than its grace_s. Run the job "
                "again. For the next vacuum, choose a grace_s that is longer than the job takes"
            )

    def discard(self) -> None:
        """Remove the uploads of the job, if the job is not closed. Ignore errors of the storage."""
        with contextlib.suppress(OSError, KStoreError):
            if self.root.has_begun(self.job):
                self.root.discard(self.job)

    def manifest(self, written: Iterable[Shard]) -> Manifest:
        """Return the manifest of the version, from the shards that the tasks have written.

        Raise a SpecError if two tasks have written the same shard.
        """
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
    """Raise a SpecError if a write does not fit the store of the newest version.

    The name and the shape in ``spec`` must be those of the newest version. If ``appending`` is
    true, ``partitions``, ``engine``, and all properties of ``spec`` that determine the stored bytes
    must also be those of the newest version.
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
            hint += ", or pass mode='overwrite' to start with an empty store"
        raise SpecError(
            f"{root} contains another store at version {newest.version}: "
            f"{'; '.join(differences)}. {hint}"
        )
