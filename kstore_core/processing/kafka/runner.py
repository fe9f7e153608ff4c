"""The loop that runs a topology on Kafka."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, get_args

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.topic import check_topic
from kstore_core.checks import check_choice
from kstore_core.codec import Headers
from kstore_core.errors import SpecError, StateError, TopologyError
from kstore_core.offsets.entries import Partition
from kstore_core.processing.kafka.outputs import OutputProducer
from kstore_core.processing.kafka.settings import Guarantee, RunnerSettings
from kstore_core.processing.kafka.tasks import RunningTask, now_ms
from kstore_core.processing.kafka.topics import task_counts
from kstore_core.processing.queues import Input
from kstore_core.processing.topology import Topology
from kstore_core.state import StateDirectory

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

__all__ = ["KafkaRunner"]

_WAIT_S = 0.1
_AT_ONCE = 1000


class KafkaRunner:
    """A process that runs tasks of a topology on Kafka.

    The processes of an application are a consumer group. Each task is a partition of a
    sub-topology, and the group assigns the task to one of the processes. The state directory of a
    task is ``<state>/<application_id>/<sub-topology>_<partition>``. Before the task processes
    records, the process restores the directory from the changelogs of the stores. Names of
    directories and topics, and the metadata of committed offsets, are those of Kafka Streams. The
    topics of the topology must exist. The process creates missing changelogs.

    Parameters
    ----------
    topology : Topology
    servers : str
        The bootstrap brokers as ``host:port``, separated by commas.
    application_id : str
        The name of the consumer group, and the beginning of the names of changelogs and
        transactions.
    state : path-like
        The directory with the states of the tasks. Processes must not share a directory.
    guarantee : {"at_least_once", "exactly_once_v2"}
        With "exactly_once_v2", a commit writes the output, the changelogs and the offsets in one
        transaction. With "at_least_once", the records since the last commit are processed again
        after a failure.
    engine : str
        The name of the storage engine of the stores.
    commit_interval_ms : int, optional
        The time between two commits in ms. Default: 30,000, or 100 with "exactly_once_v2".
    settings : mapping of str to object, optional
        Settings of the Kafka clients, by librdkafka's names.
    reset : {"earliest", "latest"}
        The place to begin in a partition without a committed offset.
    session_timeout_s : float
        The time in seconds without heartbeats after which the group reassigns a process's tasks.
    timeout_s : float
        The time in seconds after which an operation fails if the brokers do not answer.
    replication_factor : int
        The replication factor of new changelogs. -1 means the default of the brokers.
    uncommitted_max_bytes : int
        The limit of a task's uncommitted writes in bytes. The runner commits at half the limit.
    partition_time : bool
        If True, the header ``partition-time`` of a record advances stream time (KIP-472).

    Raises
    ------
    EngineUnavailableError
        confluent-kafka is not installed.
    SpecError
        An argument is not valid, or the topology reads no topic.
    TypeError
        ``topology`` is not a Topology.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        servers: str,
        application_id: str,
        state: str | os.PathLike[str],
        guarantee: Guarantee = "at_least_once",
        engine: str = "rocksdb",
        commit_interval_ms: int | None = None,
        settings: Mapping[str, Any] | None = None,
        reset: str = "earliest",
        session_timeout_s: float = 45,
        timeout_s: float = 30,
        replication_factor: int = -1,
        uncommitted_max_bytes: int = 256 * 1024 * 1024,
        partition_time: bool = False,
    ) -> None:
        if not isinstance(topology, Topology):
            raise TypeError(f"topology must be a Topology, not {topology!r}")
        check_choice("guarantee", guarantee, get_args(Guarantee))
        check_choice("reset", reset, ("earliest", "latest"))
        if commit_interval_ms is None:
            commit_interval_ms = 30_000 if guarantee == "at_least_once" else 100
        if type(commit_interval_ms) is not int or commit_interval_ms < 1:
            raise SpecError(
                f"commit_interval_ms must be an int, 1 or more, not {commit_interval_ms!r}"
            )
        self._parts = {part.id: part for part in topology.subtopologies if part.sources}
        if not self._parts:
            raise SpecError("the topology reads no topic; add a source")
        self._topology = topology
        self._session_timeout_s = session_timeout_s
        self._settings = RunnerSettings(
            Cluster(servers, settings, timeout_s),
            dict(settings or {}),
            check_topic(application_id),
            Path(state),
            guarantee,
            engine,
            commit_interval_ms,
            reset,
            replication_factor,
            uncommitted_max_bytes,
            partition_time,
        )
        self._stopped = threading.Event()
        self._tasks: dict[str, RunningTask] = {}
        self._of_partition: dict[Partition, RunningTask] = {}
        self._counts: dict[int, int] = {}
        self._outputs: OutputProducer | None = None
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<KafkaRunner {self._settings.application_id}, tasks {', '.join(self.tasks)}>"

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks that run in this process, such as ``0_3``."""
        return tuple(sorted(self._tasks.copy()))

    def stop(self) -> None:
        """Make `run` commit, close its tasks and return.

        Any thread and any signal handler may call this method.
        """
        self._stopped.set()

    def run(self) -> None:
        """Process records until :meth:`stop` is called. A runner runs only once.

        After an error, the method closes the tasks without a commit, and raises the error. If you
        then start the process again, it continues after the last commit.

        Raises
        ------
        StateError
            A topic does not exist.
        TopologyError
            The topics of a sub-topology have different numbers of partitions.
        EngineLockedError
            Another process has taken over a task, or uses the same state directory.
        EngineError
            The brokers cannot be reached, or reject a request.
        Exception
            A processor raised an exception. A note of the exception names the node and the record.
        """
        settings = self._settings
        self._counts = task_counts(self._topology, settings.cluster)
        isolation = "read_committed" if settings.is_exactly_once else "read_uncommitted"
        with ExitStack() as stack:
            if not settings.is_exactly_once:
                self._outputs = OutputProducer(settings.cluster)
                stack.callback(self._outputs.close)
            consumer = settings.cluster.member(
                settings.application_id,
                isolation=isolation,
                reset=settings.reset,
                timeout_s=self._session_timeout_s,
            )
            stack.callback(settings.cluster.close, consumer)
            stack.callback(self._close)
            topics = [topic for part in self._parts.values() for topic in part.sources]
            consumer.subscribe(
                topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            self._loop(consumer)
            self._commit(consumer)

    def _loop(self, consumer: Consumer) -> None:
        last = monotonic()
        while not self._stopped.is_set():
            with self._settings.cluster.explained("the input cannot be read"):
                messages = consumer.consume(_AT_ONCE, _WAIT_S)
            self._add(messages)
            is_due = (monotonic() - last) * 1000 >= self._settings.commit_interval_ms
            for task in self._tasks.values():
                is_due |= task.run()
            if is_due:
                self._commit(consumer)
                last = monotonic()

    def _add(self, messages: list[Message]) -> None:
        """Pass messages to their tasks. Raise the error of an earlier callback or of a message."""
        if self._failure is not None:
            raise self._failure
        cluster = self._settings.cluster
        for message in messages:
            error = message.error()
            if error is not None:
                # The topics existed at the start, so an unknown topic was deleted.
                if cluster.passes(error) and "UNKNOWN" not in error.name():
                    cluster.trouble = error
                    continue
                raise cluster.error(error, "the input cannot be read")
            # A message without an error has a topic, a partition and an offset.
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None and partition is not None and offset is not None  # noqa: PT018
            task = self._of_partition.get((topic, partition))
            if task is not None:
                kind, timestamp = message.timestamp()
                time = timestamp if kind else now_ms()
                pairs: Any = message.headers()
                key, value = _bytes(message.key()), _bytes(message.value())
                task.add(Input(topic, partition, offset, time, key, value, Headers(pairs or ())))

    def _commit(self, consumer: Consumer) -> None:
        for task in self._tasks.values():
            task.commit(consumer)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Open the tasks of the partitions that the group has assigned to this process."""
        try:
            self._open(consumer, partitions)
        except BaseException as error:  # noqa: BLE001 - the loop raises it
            self._failure = error

    def _open(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        settings = self._settings
        for number, part in self._parts.items():
            own = [place for place in partitions if place.topic in part.sources]
            for partition in sorted({place.partition for place in own}):
                places = [place for place in own if place.partition == partition]
                missing = part.sources.keys() - {place.topic for place in places}
                if missing:
                    raise StateError(
                        f"the group assigned partition {partition} of {min(missing)} to another "
                        f"process, although this process has partition {partition} of other topics "
                        f"of sub-topology {number}. All processes must use the same topology and "
                        "the same partition.assignment.strategy"
                    )
                task = RunningTask(
                    part,
                    partition,
                    self._counts[number],
                    settings,
                    self._outputs,
                    partial(consumer.committed, places, settings.cluster.timeout_s),
                )
                self._tasks = {**self._tasks, task.id: task}
                for place in places:
                    self._of_partition[place.topic, partition] = task
        consumer.assign(partitions)

    def _revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        """Commit and close all tasks before a rebalance."""
        try:
            if self._failure is None:
                self._commit(consumer)
            self._close()
        except BaseException as error:  # noqa: BLE001 - the loop raises it
            self._failure = error

    def _lost(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        """Close all tasks without a commit, because other processes may already run them."""
        try:
            self._close()
        except BaseException as error:  # noqa: BLE001 - the loop raises it
            self._failure = error

    def _close(self) -> None:
        """Close all tasks without a commit."""
        tasks, self._tasks, self._of_partition = self._tasks, {}, {}
        with ExitStack() as stack:
            for task in tasks.values():
                stack.callback(task.close)

    def view(self, store: str, partition: int) -> StateDirectory:
        """Return a read-only view of the last commit of a task that runs in this process.

        Any thread may call this method. ``view.open(spec)`` opens a store. Close the view after
        use, or use ``with``.

        Parameters
        ----------
        store : str
            The name of a store of the task.
        partition : int

        Raises
        ------
        TopologyError
            The topology has no such store.
        StateError
            The task does not run in this process.
        """
        for number, part in self._parts.items():
            if store in {spec.name for spec in part.specs}:
                task = self._tasks.get(f"{number}_{partition}")
                if task is None:
                    raise StateError(
                        f"the task {number}_{partition} of the store {store!r} does not run in "
                        f"this process, whose tasks are {', '.join(self.tasks) or 'none'}. Query "
                        "the process that runs the task, or wait until the consumer group has "
                        "assigned the task to this process"
                    )
                return task.state.committed()
        known = ", ".join(map(repr, self._topology.specs)) or "none"
        raise TopologyError(f"the topology has no store {store!r} (its stores: {known})")


def _bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
