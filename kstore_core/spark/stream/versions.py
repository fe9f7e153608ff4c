"""The published versions of a root that a stream writes, and the job that publishes the next."""

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
    """The versions of a root that belongs to one stream."""

    root: Root
    spec: StoreSpec
    stream: StreamBinding
    publish_every: int  # a version is published after this number of epochs
    newest: Manifest | None
    unpublished: set[int] | None = field(default=None, init=False)
    """The shards that have changed since the version ``newest``; None if unknown."""

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards of the newest version; empty shards if there is no version."""
        if self.newest is None:
            return tuple(map(Shard, range(self.stream.partitions)))
        return self.newest.shards

    @property
    def published(self) -> int:
        """The epoch that published the newest version; -1 if no epoch of this stream did."""
        found = None if self.newest is None else epoch_of(self.stream.query, self.newest.job)
        return -1 if found is None else found

    def begin(self, epoch: int) -> WriteJob | None:
        """Begin and return the job that publishes this epoch, or None if no version is due.

        Raises StateError if the newest version contains a later epoch.
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
            job_of(self.stream.query, epoch),
        )
        job.begin()
        return job

    def finish(self, epoch: int, job: WriteJob | None, reported: Iterable[Shard]) -> None:
        """Publish the shards that the tasks reported, if :meth:`begin` returned a job.

        Raises CommitConflictError if another writer has published a version since `begin`. Raises
        StateError if the job's files were removed: tasks then copied no shards, so a version would
        lack the changes of the epoch.
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
