"""The core that processes the records of one task, without a cluster.

A task is one partition of a sub-topology. The caller gives it an open state directory and input
records, lets it process them, takes the output records, and decides when to commit. So a test, a
Spark worker and a loop over a Kafka consumer can run the same task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from kstore_core.checks import check_choice
from kstore_core.codec import Headers
from kstore_core.errors import SpecError, StateError, TopologyError
from kstore_core.offsets.entries import Partition
from kstore_core.partition_time import partition_time
from kstore_core.processing.nodes import Node, ProcessorNode, Sink, Source
from kstore_core.processing.processor import Process, Processor, TimeKind
from kstore_core.processing.queues import Input, RecordQueues, Schedule, Schedules
from kstore_core.processing.record import Record
from kstore_core.processing.topology import Subtopology
from kstore_core.serdes import Serde
from kstore_core.state import StateDirectory
from kstore_core.typed.serde_failures import serde_error
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["Output", "Task", "deserialized", "serialized"]

_TIMES = ("stream_time", "wall_clock")


class Output(NamedTuple):
    """A record that a sink sent, with the serialised key and value."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


class Task:
    """One partition of a sub-topology, whose processors are initialised by the constructor.

    Only one thread may use a task.

    Parameters
    ----------
    part : Subtopology
    state : StateDirectory
        The state directory of the task. The task opens its stores, and the caller closes it.
    clock : callable
        A function that returns the wall-clock time in ms.
    partition_time : bool
        If True, the header ``partition-time`` of a record advances partition time and stream time.
        Open the state directory with the same argument.

    Attributes
    ----------
    part : Subtopology
    outputs : list of Output
        The records that sinks sent. The caller removes them.
    offsets : dict of (str, int) to int
        The offset of the last processed record of each topic and partition.
    stream_time : int
        The greatest time of the processed records in ms; -1 before them.
    system_time : int
        The wall-clock time in ms at which the current step began.
    partition_times : dict of (str, int) to int
        The greatest time in ms of the processed records of each topic and partition.
    record : RecordContext or None
        The context of the current record; None while the task does nothing.
    running : RunningNode
        The node that runs, or that raised an error.
    """

    def __init__(
        self,
        part: Subtopology,
        state: StateDirectory,
        *,
        clock: Callable[[], int],
        partition_time: bool = False,
    ) -> None:
        self.part = part
        self.outputs: list[Output] = []
        self.offsets: dict[Partition, int] = {}
        self.stream_time = -1
        self.system_time = clock()
        self.partition_times: dict[Partition, int] = {}
        self.record: RecordContext | None = None
        self._state = state
        self._clock = clock
        self._honours_partition_time = partition_time
        self._queues = RecordQueues()
        self._schedules = {kind: Schedules() for kind in _TIMES}
        self._stores = {spec.name: state.open(spec) for spec in part.specs}
        self.running: RunningNode
        self._nodes: dict[str, RunningNode] = {}
        for node in part.nodes:
            made = self._nodes[node.name] = RunningNode(node, self, state.record, self._stores)
            for parent in node.parents:
                self._nodes[parent].children[node.name] = made
        for made in self._nodes.values():
            self._step(made, RecordContext(timestamp=self.system_time), made.init)

    def add(self, record: Input) -> None:
        """Add a record of an input topic, which a later :meth:`process` processes."""
        self.source_of(record.topic)
        self._queues.add(record)

    def source_of(self, topic: str) -> Source:
        """Return the source that reads a topic.

        Raises
        ------
        TopologyError
            No source reads the topic.
        """
        source = self.part.sources.get(topic)
        if source is None:
            known = ", ".join(map(repr, self.part.sources)) or "no topic"
            raise TopologyError(f"no source reads the topic {topic!r}; sources read {known}")
        return source

    @property
    def waiting(self) -> int:
        """The number of records that were added and not processed yet."""
        return len(self._queues)

    def process(self) -> bool:
        """Process the next record. Return False if no record waits.

        If the processing fails, the record is not processed again. Its writes are staged, and its
        offset is not in `offsets`: discard the task and its uncommitted writes.
        """
        taken = self._queues.take()
        if taken is None:
            return False
        where = (taken.topic, taken.partition)
        time = taken.timestamp
        if self._honours_partition_time and (sent := partition_time(taken.headers)) is not None:
            time = max(time, sent.read)
        self.partition_times[where] = max(time, self.partition_times.get(where, -1))
        self.stream_time = max(time, self.stream_time)
        source = self.part.sources[taken.topic]
        at = f"{taken.topic}-{taken.partition}@{taken.offset}"
        key = deserialized(source.key, taken.key, taken.headers, f"the key of {at}")
        value = deserialized(source.value, taken.value, taken.headers, f"the value of {at}")
        record = Record(key, value, taken.timestamp, taken.headers, *where, taken.offset)
        context = RecordContext(*where, taken.offset, taken.timestamp, taken.headers)
        node = self._nodes[source.name]
        self._step(node, context, partial(node.forward, record))
        self.offsets[where] = taken.offset
        return True

    def punctuate(self, time: TimeKind) -> bool:
        """Call the schedules whose time has come. Return True if there was one.

        The caller does this after each record for stream time, and regularly for wall-clock time.
        """
        self.system_time = self._clock()
        now = self.stream_time if time == "stream_time" else self.system_time
        if time == "stream_time" and now < 0:
            return False
        return self._schedules[time].run(now, partial(self._call, now))

    def _call(self, now: int, schedule: Schedule) -> None:
        context = RecordContext(timestamp=now)
        self._step(
            schedule.node, context, partial(schedule.node.run, partial(schedule.callback, now))
        )

    def _step(self, node: RunningNode, context: RecordContext, call: Callable[[], object]) -> None:
        """Call a function of a node under the context of a record."""
        self.system_time = self._clock()
        self.record, self.running = context, node
        try:
            call()
        except Exception as error:
            where = (
                ""
                if context.topic is None
                else (f", while it processed {context.topic}-{context.partition}@{context.offset}")
            )
            error.add_note(f"the node {self.running.name!r} raised this error{where}")
            raise
        finally:
            self.record = None

    def schedule(
        self,
        node: RunningNode,
        interval_ms: int,
        time: TimeKind,
        callback: Callable[[int], object],
        start: Time | None,
    ) -> Schedule:
        """Add a schedule of a node."""
        check_choice("time", time, _TIMES)
        if type(interval_ms) is not int or interval_ms < 1:
            raise SpecError(f"interval_ms must be an int, 1 or more, not {interval_ms!r}")
        now = self.stream_time if time == "stream_time" else self.system_time
        if start is not None:
            first = to_millis(start)
        else:
            first = 0 if time == "stream_time" else now + interval_ms
        made = Schedule(first, interval_ms, callback, node)
        if start is not None and first < now:
            made.advance(now)
        self._schedules[time].add(made)
        return made

    def commit(self) -> None:
        """Commit the writes to the stores together with `offsets`."""
        self._state.commit(self.offsets or None)

    def close(self) -> None:
        """Close the processors. All of them are closed, even if one raises an error."""
        with contextlib.ExitStack() as stack:
            for node in reversed(self._nodes.values()):
                stack.callback(node.close)


class RunningNode:
    """A node of a running task, which is also the context of its processor.

    :class:`kstore_core.processing.Context` describes the methods for processors.
    """

    def __init__(
        self,
        node: Node,
        task: Task,
        current_record: Callable[..., contextlib.AbstractContextManager[object]],
        stores: dict[str, Any],
    ) -> None:
        self.name = node.name
        self.children: dict[str, RunningNode] = {}
        self._task = task
        self._is_open = False
        self._current_record = current_record
        self._stores: dict[str, Any] = {}
        self._processor: Processor | None = None
        self._process: Process = self.forward
        if isinstance(node, Sink):
            self._process = partial(_send, node, task.outputs)
        elif isinstance(node, ProcessorNode):
            self._stores = {name: stores[name] for name in node.stores}
            self._processor, self._process = node.make(self)

    def init(self) -> None:
        """Initialise the processor."""
        if self._processor is not None:
            self.run(partial(self._processor.init, self))
        self._is_open = True

    def close(self) -> None:
        """Close the processor."""
        if self._processor is not None and self._is_open:
            self._processor.close()
        self._is_open = False

    def process(self, record: Record[Any, Any]) -> None:
        """Process a record that a parent has forwarded."""
        if not self._is_open:
            raise StateError(
                f"the node {self.name!r} cannot get a record while the task is initialised or "
                "closed. Forward records in process(), or in the callback of a schedule"
            )
        parent = self._task.running
        self._task.running = self
        self.run(partial(self._process, record))
        self._task.running = parent  # after an error, the node that raised it

    def run(self, call: Callable[[], object]) -> None:
        """Call a function of the processor, whose stores then use the current record."""
        record = self._task.record
        if not self._stores or record is None:
            call()
            return
        with self._current_record(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            headers=record.headers,
        ):
            call()

    def forward(self, record: Record[Any, Any], to: str | None = None) -> None:
        task = self._task
        context = task.record
        if context is None:
            raise StateError(
                f"the processor {self.name!r} forwarded a record outside process() and outside the "
                "callback of a schedule, so the task has no current record"
            )
        children: Iterable[RunningNode] = self.children.values()
        if to is not None:
            if to not in self.children:
                known = ", ".join(map(repr, self.children)) or "no children"
                raise TopologyError(
                    f"the processor {self.name!r} forwarded a record to {to!r}, but its children "
                    f"are {known}. Pass the name of a child, or name {self.name!r} as a parent of "
                    f"{to!r} in the topology"
                )
            children = (self.children[to],)
        origin = (context.topic, context.partition, context.offset)
        record = record.with_origin(*origin)
        task.record = RecordContext(*origin, record.timestamp, record.headers)
        try:
            for child in children:
                child.process(record)
        finally:
            task.record = context

    def store(self, name: str) -> Any:
        if name not in self._stores:
            known = ", ".join(map(repr, self._stores)) or "none"
            raise TopologyError(
                f"the processor {self.name!r} has no store {name!r} (its stores: {known}). Pass "
                f"the spec of the store in add_processor({self.name!r}, …, stores=[…])"
            )
        return self._stores[name]

    def schedule(
        self,
        interval_ms: int,
        time: TimeKind,
        callback: Callable[[int], object],
        *,
        start: Time | None = None,
    ) -> Schedule:
        return self._task.schedule(self, interval_ms, time, callback, start)

    @property
    def headers(self) -> Headers:
        record = self._task.record
        return Headers() if record is None else record.headers

    @property
    def stream_time(self) -> int:
        return self._task.stream_time

    @property
    def system_time(self) -> int:
        return self._task.system_time

    @property
    def partition_time(self) -> int:
        task = self._task
        record = task.record
        if record is None or record.topic is None:
            return task.stream_time
        return task.partition_times[record.topic, record.partition]


def _send(sink: Sink, outputs: list[Output], record: Record[Any, Any]) -> None:
    headers = record.headers
    key = serialized(sink.key, record.key, headers, f"the key for the topic {sink.topic}")
    value = serialized(sink.value, record.value, headers, f"the value for the topic {sink.topic}")
    outputs.append(Output(sink.topic, key, value, record.timestamp, headers.copy()))


def serialized(serde: Serde[Any], given: Any, headers: Headers, what: str) -> bytes | None:
    """Return the bytes of a key or a value, or None for None. The serde may add headers."""
    try:
        return None if given is None else serde.serialize(given, headers)
    except Exception as error:
        raise serde_error(error, f"the serde {serde.name} cannot write {what}") from error


def deserialized(serde: Serde[Any], data: bytes | None, headers: Headers, what: str) -> Any:
    """Return the key or the value that bytes contain, or None for None."""
    try:
        return None if data is None else serde.deserialize(data, headers)
    except Exception as error:
        raise serde_error(error, f"the serde {serde.name} cannot read {what}") from error
