"""A running task: a partition of a sub-topology, with its stores, changelogs and transactions."""

from __future__ import annotations

import base64
import binascii
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kstore_core.changelog import KafkaChangelogs
from kstore_core.offsets.entries import Partition
from kstore_core.processing.kafka.outputs import OutputProducer
from kstore_core.processing.kafka.settings import RunnerSettings
from kstore_core.processing.queues import Input
from kstore_core.processing.task import Task
from kstore_core.processing.topology import Subtopology
from kstore_core.state import open_state

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

__all__ = ["RunningTask", "now_ms"]

_METADATA = struct.Struct(">bq")
_VERSION = 1


class RunningTask:
    """A task that runs on Kafka. The constructor restores its stores from their changelogs.

    Parameters
    ----------
    part : Subtopology
    partition : int
    partitions : int
        The number of tasks of the sub-topology.
    settings : RunnerSettings
    outputs : OutputProducer or None
        The producer that all tasks share. None with the guarantee ``exactly_once_v2``, for which
        each task has a separate producer.
    committed : callable
        A function that returns the committed offsets of the input, with their metadata.
    """

    def __init__(
        self,
        part: Subtopology,
        partition: int,
        partitions: int,
        settings: RunnerSettings,
        outputs: OutputProducer | None,
        committed: Callable[[], list[TopicPartition]],
    ) -> None:
        self.id = f"{part.id}_{partition}"
        self.partition = partition
        self._settings = settings
        self._sent: dict[Partition, int] = {}
        application = settings.application_id
        with ExitStack() as stack:
            if outputs is None:
                # This ends the transaction of the process that ran the task before. Afterwards the
                # changelogs and the committed offsets do not change.
                outputs = OutputProducer(settings.cluster, f"{application}-{self.id}")
                stack.callback(outputs.close)
            self._outputs = outputs
            logs = KafkaChangelogs(
                settings.cluster.servers,
                application_id=application,
                partition=partition,
                partitions=partitions,
                replication_factor=settings.replication_factor,
                settings=settings.client,
                timeout_s=settings.cluster.timeout_s,
                producer=outputs.client if settings.is_exactly_once else None,
            )
            self.state = open_state(
                settings.state / application / self.id,
                engine=settings.engine,
                transactional=True,
                changelog=logs,
                uncommitted_max_bytes=settings.uncommitted_max_bytes,
                partition_time=settings.partition_time,
            )
            stack.callback(self.state.close)  # without a commit
            self._task = Task(
                part, self.state, clock=now_ms, partition_time=settings.partition_time
            )
            stack.callback(self._task.close)
            with settings.cluster.explained("the committed offsets cannot be read"):
                places = committed()
            for place in places:
                known = _time_of(place.metadata)
                if known >= 0:
                    self._task.context.advance((place.topic, place.partition), known)
            self._resources = stack.pop_all()

    def add(self, record: Input) -> None:
        """Add a record of the input, which `run` processes."""
        self._task.add(record)

    def run(self) -> bool:
        """Process all records, and call the callbacks of the schedules that are due.

        Return True if the uncommitted writes exceed half of their limit, so that a commit is due.
        """
        task = self._task
        while task.process():
            task.punctuate("stream_time")
            self._send()
        task.punctuate("wall_clock")
        self._send()
        return 2 * self.state.staged_bytes > self._settings.uncommitted_max_bytes

    def _send(self) -> None:
        if self._task.outputs:
            self._outputs.send(self._task.outputs)
            self._task.outputs.clear()

    def commit(self, consumer: Consumer) -> None:
        """Commit the output, the stores with their changelogs, and the offsets of the input.

        With ``exactly_once_v2``, one transaction contains the output, the changelogs and the
        offsets. The rows of the stores are written after this transaction. If the process dies
        before it writes the rows, the next open restores the rows from the changelogs.
        """
        offsets = dict(self._task.offsets)
        moved = [self._place(at) for at, last in offsets.items() if self._sent.get(at) != last]
        self.state.flush()
        if not (moved or self.state.staged_bytes or self._outputs.has_sent):
            return
        if self._settings.is_exactly_once:
            self._outputs.begin()
            self.state.send_changes(offsets or None)
            self._outputs.commit(moved, consumer)
            self.state.commit(offsets or None)
        else:
            self._outputs.flush()
            self.state.commit(offsets or None)
            if moved:
                with self._settings.cluster.explained("the offsets were not committed"):
                    consumer.commit(offsets=moved, asynchronous=False)
        self._sent = offsets

    def _place(self, where: Partition) -> TopicPartition:
        """Return the offset to commit for an input partition, with partition time as metadata."""
        time = self._task.context.partition_times.get(where, -1)
        kind: Any = self._settings.cluster.library.TopicPartition
        place: TopicPartition = kind(*where, self._task.offsets[where] + 1, metadata=_text_of(time))
        return place

    def close(self) -> None:
        """Close the processors and the stores, without a commit."""
        self._resources.close()


def now_ms() -> int:
    """Return the wall-clock time in ms."""
    return time.time_ns() // 1_000_000


def _text_of(partition_time: int) -> str:
    """Return a partition time as the metadata that Kafka Streams commits with an offset."""
    return base64.b64encode(_METADATA.pack(_VERSION, partition_time)).decode()


def _time_of(metadata: str | None) -> int:
    """Return the partition time in the metadata of an offset, or -1 if there is none."""
    try:
        data = base64.b64decode(metadata or "", validate=True)
        version, partition_time = _METADATA.unpack(data[: _METADATA.size])
    except (binascii.Error, struct.error, ValueError):
        return -1
    # Version 2 of the metadata has more fields after these two.
    return int(partition_time) if version in (1, 2) else -1
