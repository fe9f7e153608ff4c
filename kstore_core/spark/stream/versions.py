"""The versions of a streamed root: their last epochs, and the publication of the next version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.stream.publishing import epoch_of, job_of
from kstore_core.spark.write.job import WriteJob

if TYPE_CHECKING:
    from kstore_core.spark.live.stream_binding import StreamBinding
    from kstore_core.spark.root.root import Root
    from kstore_core.spec import StoreSpec

__all__ = ["Versions"]


@dataclass(slots=True)
class Versions:
    """The versions of a root of one stream."""

    root: Root
    spec: StoreSpec
    stream: StreamBinding
    publish_every: int  # epochs from one version to the next
    newest: Manifest | None
    unpublished: set[int] | None = field(default=None, init=False)
    """The shards that have changed since ``newest``; None if unknown."""

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards of the newest version."""
        if self.newest is None:
            return tuple(map(Shard, range(self.stream.partitions)))
        return self.newest.shards

    @property
    def published(self) -> int:
        """The last epoch in the newest version; -1 for none."""
        found = None if self.newest is None else epoch_of(self.stream.query, self.newest.job)
        return -1 if found is None else found

    def begin(self, epoch: int) -> WriteJob | None:
        """Begin the job that publishes this epoch; None if no version is due.

        A StateError if the newest version has a later epoch.
        """
        if epoch < self.published:
            assert self.newest is not None
            raise StateError(
                f"version {self.newest.version} of {self.root} contains epoch {self.published} of "
                f"the stream {self.stream.query}, and Spark runs epoch {epoch}: the checkpoint is "
                "older than the store. Use the newest checkpoint, or another root"
            )
        if self.unpublished is None and self.published == epoch - 1:
            self.unpublished = set()
        if epoch == self.published or (epoch + 1) % self.publish_every:
            return None
        job = WriteJob(
            self.root,
            self.spec,
            self.stream.engine,
            self.stream.partitions,
            "append",
            1 if self.newest is None else self.newest.version + 1,
            {shard.shard: shard for shard in self.shards},
            job_of(self.stream.query, epoch),
        )
        job.begin()
        return job

    def finish(self, epoch: int, job: WriteJob | None, reported: Iterable[Shard]) -> None:
        """Publish the shards that tasks reported, if :meth:`begin` returned a job.

        A CommitConflictError if another writer has published in the meantime; a StateError if the
        job's files were removed: tasks stop copying, so the next version would lack their changes.
        """
        done = {shard.shard: shard for shard in reported}
        if job is not None:
            if any(shard.path is None for shard in done.values()):
                job.check_begun()
            if done:
                self.newest = job.publish(done.values())
            else:
                job.discard()
            self.unpublished = set()
        elif self.unpublished is not None and epoch != self.published:
            self.unpublished |= done.keys()
