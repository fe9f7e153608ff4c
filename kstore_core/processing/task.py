"""The core that processes the records of one task, without a cluster.

A task is one partition of a sub-topology. The caller passes an open state directory and input
records to the task, and calls methods of the task to process the records. The caller then takes the
output records, and decides when to commit. So a test, a Spark worker and a loop over a Kafka
consumer can run the same task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kstore_core.errors import TopologyError
from kstore_core.offsets.entries import Partition
from kstore_core.partition_time import partition_time
from kstore_core.processing.nodes import Source, serdes_of
from kstore_core.processing.processor import TimeKind
from kstore_core.processing.queues import Input, RecordQueues, Schedule
from kstore_core.processing.record import Record
from kstore_core.processing.running import RunningNode, TaskContext, deserialized, name_of
from kstore_core.processing.topology import Subtopology
from kstore_core.state import StateDirectory
from kstore_core.types import RecordContext

__all__ = ["Task"]


class Task:
    """One partition of a sub-topology. The constructor initialises the processors.

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
    context : TaskContext
        The times of the task. To continue an earlier task, set its times before the first record.
    outputs : list of Output
        The records that sinks sent. The caller removes them.
    offsets : dict of (str, int) to int
        The offset of the last processed record of each topic and partition.
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
        self.context = TaskContext(clock())
        self.outputs = self.context.outputs
        self.offsets: dict[Partition, int] = {}
        self._state = state
        self._clock = clock
        self._honours_partition_time = partition_time
        self._queues = RecordQueues()
        self._nodes: dict[str, RunningNode] = {}
        self._serdes = {topic: serdes_of(node, topic) for topic, node in part.sources.items()}
        stores = {spec.name: state.open(spec) for spec in part.specs}
        for node in part.nodes:
            made = self._nodes[node.name] = RunningNode(node, self.context, state.within, stores)
            for parent in node.parents:
                self._nodes[parent].children[node.name] = made
        self._readers = {topic: self._nodes[node.name] for topic, node in part.sources.items()}
        try:
            for made in self._nodes.values():
                self._step(made, RecordContext(timestamp=self.context.system_time), made.init)
        except BaseException:
            self.close()  # the processors that were initialised before the error
            raise

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

    def process(self) -> bool:
        """Process the next record. Return False if no record waits.

        If the processing fails, the task does not process the record again. The writes up to the
        error stay staged, and the offset of the record is not in `offsets`. Discard the task and
        its uncommitted writes.
        """
        taken = self._queues.take()
        if taken is None:
            return False
        topic, partition, offset, timestamp, raw_key, raw_value, headers = taken
        where, origin = (topic, partition), (topic, partition, offset)
        sent = partition_time(headers) if self._honours_partition_time else None
        self.context.advance(where, timestamp if sent is None else max(timestamp, sent.read))
        keys, values = self._serdes[topic]
        key = deserialized(keys, raw_key, headers, "the key", origin)
        value = deserialized(values, raw_value, headers, "the value", origin)
        record = Record(key, value, timestamp, headers, *origin)
        node = self._readers[topic]
        self._step(node, RecordContext(*origin, timestamp, headers), node.forward, record)
        if sent is not None:
            self.context.advance(where, sent.sent)
        self.offsets[where] = offset
        return True

    def punctuate(self, time: TimeKind) -> bool:
        """Call the callbacks of the schedules that are due. Return True if a schedule was due.

        Call this method with "stream_time" after each record, and regularly with "wall_clock".
        """
        self.context.system_time = self._clock()
        now = self.context.now(time)
        if time == "stream_time" and now < 0:
            return False

        def call(schedule: Schedule) -> None:
            record = RecordContext(timestamp=now)
            self._step(schedule.node, record, schedule.node.run, schedule.callback, now)

        return self.context.schedules[time].run(now, call)

    def _step(
        self, node: RunningNode, record: RecordContext, call: Callable[..., object], *args: object
    ) -> None:
        """Call a function of a node with ``record`` as the current record."""
        context = self.context
        context.system_time = self._clock()
        context.record, context.running = record, node
        try:
            call(*args)
        except Exception as error:
            origin = (record.topic, record.partition, record.offset)
            at = "" if record.topic is None else f", while it processed {name_of(origin)}"
            error.add_note(f"the node {context.running.name!r} raised this error{at}")
            raise
        finally:
            context.record = None

    def commit(self) -> None:
        """Commit the writes to the stores together with `offsets`."""
        self._state.commit(self.offsets or None)

    def close(self) -> None:
        """Close the processors. All of them are closed, even if one raises an error."""
        with contextlib.ExitStack() as stack:
            for node in reversed(self._nodes.values()):
                stack.callback(node.close)
