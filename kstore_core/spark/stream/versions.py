"""The versions that a stream has published, and the write job that publishes the next version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore_core.errors import StateError
from kstore_core.spark.remote.layout import COMPACT_EVERY
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
    """The versions of a root, as the driver of the root's stream knows them."""

    root: Root
    spec: StoreSpec
    stream: StreamBinding
    publish_every: int  # the number of epochs after which the stream publishes a version
    newest: Manifest | None
    compact_every: int = COMPACT_EVERY  # see RemoteLayout
    unpublished: set[int] | None = field(default=None, init=False)
    """The numbers of the shards that changed after the version ``newest``, or None if unknown."""

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards of the newest version, or empty shards if there is no version."""
        if self.newest is None:
            return tuple(map(Shard, range(self.stream.partitions)))
        return self.newest.shards

    @property
    def published(self) -> int:
        """The epoch that published the newest version, or -1 if this stream did not publish it."""
        found = None if self.newest is None else epoch_of(self.stream.query, self.newest.job)
        return -1 if found is None else found

    def begin(self, epoch: int) -> WriteJob | None:
        """Begin the write job that publishes a version after this epoch, and return the job.

        Return None if no version is due. Raise a StateError if the newest version contains a later
        epoch of this stream.
        """
        if epoch < self.published:
            assert self.newest is not None
            raise StateError(
                f"version {self.newest.version} of {self.root} contains epoch {self.published} of "
                f"the stream {self.stream.query}, but Spark runs epoch {epoch}, so the checkpoint "
                "is older than the store. Use the newest checkpoint, or another root"
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
            job_of(self.root, self.stream.query, epoch),
        )
        job.begin()
        return job

    def finish(self, epoch: int, job: WriteJob | None, reported: Iterable[Shard]) -> None:
        """Publish the shards that the tasks reported, if :meth:`begin` returned a job.

        Raise a CommitConflictError if another writer has published a version since ``begin``. Raise
        a StateError if the files of the job were removed. If the files were removed, the tasks
        copied no shards, and a version without the copies would lack the changes of the epoch.
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
