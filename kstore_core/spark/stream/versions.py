"""The versions of a streamed root: which epoch each shows, which one is due, and publishing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.stream.publishing import epoch_of, job_of
from kstore_core.spark.write.job import WriteJob

if TYPE_CHECKING:
    from kstore_core.spark.live.layout import Stream
    from kstore_core.spark.root.root import Root
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

    def begin(self, epoch: int) -> WriteJob | None:
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

    def finish(self, epoch: int, job: WriteJob | None, told: Iterable[Shard]) -> None:
        """Publish what the tasks tell by a job of :meth:`begin`, if there is one and any is new.

        Raises
        ------
        CommitConflictError
            Somebody has published a version meanwhile.
        StateError
            Somebody removed what was copied for it: then tasks copy no more, and the next version
            would not have what they have changed.
        """
        done = {shard.shard: shard for shard in told}
        if job is not None:
            if any(shard.path is None for shard in done.values()):
                job.check_begun()
            if done:
                self.newest = job.publish(done.values())
            else:
                job.discard()
            self.unpublished = set()
        elif self.unpublished is not None and epoch != self.shown:
            self.unpublished |= done.keys()
