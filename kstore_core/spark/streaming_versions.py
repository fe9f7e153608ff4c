"""The versions of a streamed root: which epoch each shows, which one is due, and publishing it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore_core.errors import StateError
from kstore_core.spark.manifest import Manifest, Shard
from kstore_core.spark.streaming_publish import epoch_of, job_of
from kstore_core.spark.write_job import program

if TYPE_CHECKING:
    from kstore_core.spark.roots import Root
    from kstore_core.spark.streaming_home import Stream
    from kstore_core.spec import StoreSpec

__all__ = ["Versions"]


@dataclass(slots=True)
class Versions:
    """What whoever runs a stream knows of its versions. Nobody else writes any meanwhile.

    Attributes
    ----------
    root : Root
    spec : StoreSpec
    stream : Stream
    publish_every : int
        Each epoch with a number that is one less than a multiple of this is published.
    newest : Manifest or None
    unpublished : set of int or None
        The shards that have changed since then; None where nobody knows.
    """

    root: Root
    spec: StoreSpec
    stream: Stream
    publish_every: int
    newest: Manifest | None
    unpublished: set[int] | None = field(default=None, init=False)

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards of the newest version."""
        if self.newest is None:
            return tuple(map(Shard, range(self.stream.partitions)))
        return self.newest.shards

    @property
    def shown(self) -> int:
        """The last epoch that the newest version shows; -1 for none."""
        found = None if self.newest is None else epoch_of(self.stream.query, self.newest.job)
        return -1 if found is None else found

    def begin(self, epoch: int) -> str | None:
        """The job that a version of this epoch is to be made by; None where none is due.

        Raises
        ------
        StateError
            The newest version shows a later epoch.
        """
        if epoch < self.shown:
            assert self.newest is not None
            raise StateError(
                f"version {self.newest.version} of {self.root} shows epoch {self.shown} of the "
                f"stream {self.stream.query}, and Spark gives epoch {epoch}: the checkpoint is "
                "older than the store. Use the newest one, or another root"
            )
        if self.unpublished is None and self.shown == epoch - 1:
            self.unpublished = set()
        if epoch == self.shown or (epoch + 1) % self.publish_every:
            return None
        job = job_of(self.stream.query, epoch)
        self.root.begin(job)
        return job

    def abandon(self, epoch: int, job: str | None) -> None:
        """Remove what the job of a failed epoch has copied, unless it is published."""
        if job is not None and self.shown != epoch:
            self.root.discard(job)

    def finish(self, epoch: int, job: str | None, told: Iterable[Shard]) -> Manifest | None:
        """Publish what the tasks tell, by a job of :meth:`begin`; the version, if there is one.

        Raises
        ------
        CommitConflictError
            Somebody has published a version meanwhile.
        """
        done = {shard.shard: shard for shard in told}
        copied = {number for number, shard in done.items() if shard.path is not None}
        if job is None or not copied:
            if self.unpublished is not None and epoch > self.shown:
                self.unpublished |= done.keys()
            if job is not None:
                self.root.discard(job)
            return None
        manifest = Manifest(
            version=1 if self.newest is None else self.newest.version + 1,
            created_ms=time.time_ns() // 1_000_000,
            job=job,
            mode="append",
            engine=self.stream.engine,
            partitions=self.stream.partitions,
            spec=self.spec.describe(),
            shards=tuple(
                done[shard.shard] if shard.shard in copied else shard for shard in self.shards
            ),
            written_by=program(),
        )
        self.root.publish(manifest)
        self.newest, self.unpublished = manifest, set()
        with contextlib.suppress(OSError):
            self.root.keep_only(job, manifest)
        return manifest
