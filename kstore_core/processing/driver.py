"""The test driver, which runs a topology without a cluster."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from kstore_core.changelog.whole import without_marks
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Engine
from kstore_core.errors import StoreClosedError, TopologyError
from kstore_core.offsets.position import Position
from kstore_core.processing.accessors import StoreAccessors
from kstore_core.processing.changelogs import MemoryChangelogs
from kstore_core.processing.nodes import ProcessorNode, Sink, serdes_of
from kstore_core.processing.queues import Input, Output
from kstore_core.processing.record import Record
from kstore_core.processing.running import deserialized, serialized
from kstore_core.processing.task import Task
from kstore_core.processing.topology import Topology
from kstore_core.spec import StoreSpec
from kstore_core.state import open_state
from kstore_core.system.interrupts import leave
from kstore_core.types import Time, to_millis

__all__ = ["StoreMetadata", "TestDriver"]

_APPLICATION = "test-driver"


@dataclass(frozen=True, slots=True)
class StoreMetadata:
    """The description of a store of a running topology.

    Attributes
    ----------
    spec : StoreSpec
    subtopology : int
        The number of the sub-topology that owns the store.
    processors : tuple of str
        The names of the processors that use the store.
    topics : tuple of str
        The topics that the sub-topology reads.
    changelog : str
        The topic of the changelog.
    position : Position
        For each input topic and partition, the last offset whose writes the store contains.
    """

    spec: StoreSpec
    subtopology: int
    processors: tuple[str, ...]
    topics: tuple[str, ...]
    changelog: str
    position: Position


class TestDriver(StoreAccessors):
    """A driver that runs a topology in this process, like Kafka's ``TopologyTestDriver``.

    Each topic has one partition. :meth:`pipe_input` processes a record completely: it calls
    stream-time schedules, commits the stores, and then processes the records that sinks have
    written to topics that a source reads. One task runs all sub-topologies, so all of them have the
    same stream time, as in Kafka's driver.

    Parameters
    ----------
    topology : Topology
    engine : str or Engine
        The engine of the stores. An engine on disk gets a temporary directory.
    start_ms : int or datetime, optional
        The wall-clock time at the start. Only :meth:`advance_wall_clock` changes it. Default: the
        current time.
    partition_time : bool
        If True, the header ``partition-time`` of a record advances stream time (KIP-472).
    """

    __test__ = False  # Without this, pytest would collect the class.

    def __init__(
        self,
        topology: Topology,
        *,
        engine: str | Engine = "memory",
        start_ms: Time | None = None,
        partition_time: bool = False,
    ) -> None:
        self._topology = topology
        self._now = time.time_ns() // 1_000_000 if start_ms is None else to_millis(start_ms)
        self._next_offsets: defaultdict[str, int] = defaultdict(int)
        self._outputs: defaultdict[str, list[Output]] = defaultdict(list)
        self._read: defaultdict[str, int] = defaultdict(int)
        self._changelogs = MemoryChangelogs(_APPLICATION)
        self._sinks = {
            node.topic: serdes_of(node, node.topic)
            for node in topology.nodes.values()
            if isinstance(node, Sink)
        }
        made = make_engine(engine, None)
        with ExitStack() as stack:
            root = "test"
            if made.capabilities.persistent:
                root = stack.enter_context(TemporaryDirectory(prefix="kstore-test-"))
            self._state = open_state(
                Path(root, "0_0"),
                engine=made,
                changelog=self._changelogs,
                partition_time=partition_time,
            )
            stack.callback(self._state.close)  # without a commit
            self._task = Task(
                topology.whole(), self._state, clock=self._time, partition_time=partition_time
            )
            stack.callback(self._task.close)
            self._resources = stack.pop_all()
        self._open = True

    def _time(self) -> int:
        return self._now

    def __enter__(self) -> Self:
        return self

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        self.close()

    @property
    def wall_clock(self) -> int:
        """The wall-clock time of the driver in ms."""
        return self._now

    @property
    def stream_time(self) -> int:
        """The greatest time (ms) of the processed records; -1 before the first record."""
        return self._task.context.stream_time

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        *,
        timestamp: Time | None = None,
        headers: Any = (),
    ) -> None:
        """Process a record of an input topic, and the records that sinks write to input topics.

        Parameters
        ----------
        topic : str
            A topic that a source reads. The serdes of the source serialise the key and the value.
        key, value : object or None
        timestamp : int or datetime, optional
            Default: the wall-clock time of the driver.
        headers : Headers or iterable of (str, bytes or None)

        Raises
        ------
        TopologyError
            No source reads the topic.
        ValueError
            The timestamp is negative.
        """
        self._check()
        at = self._now if timestamp is None else timestamp
        record = Record(key, value, at, headers)
        keys, values = serdes_of(self._task.source_of(topic), topic)
        output = Output(
            topic,
            serialized(keys, record.key, record.headers, "the key for", topic),
            serialized(values, record.value, record.headers, "the value for", topic),
            record.timestamp,
            record.headers,
        )
        self._enqueue(output)
        self._run()

    def advance_wall_clock(self, ms: int) -> None:
        """Advance the wall-clock time, and call each due wall-clock schedule once."""
        self._check()
        if type(ms) is not int or ms < 0:
            raise ValueError(f"ms must be an int, 0 or more, not {ms!r}; time cannot go back")
        self._now += ms
        self._task.punctuate("wall_clock")
        self._task.commit()
        self._run()

    def _run(self) -> None:
        self._capture()
        while self._task.process():
            self._task.punctuate("stream_time")
            self._task.commit()
            self._capture()

    def _capture(self) -> None:
        """Store the output records, and enqueue the records that sinks wrote to input topics."""
        sent = self._task.outputs[:]
        del self._task.outputs[:]
        for output in sent:
            self._outputs[output.topic].append(output)
            if output.topic in self._task.part.sources:
                self._enqueue(output)

    def _enqueue(self, output: Output) -> None:
        topic, key, value, timestamp, headers = output
        offset = self._next_offsets[topic]
        self._next_offsets[topic] += 1
        self._task.add(Input(topic, 0, offset, timestamp, key, value, headers.copy()))

    def _record(self, output: Output, offset: int) -> Record[Any, Any]:
        topic, raw_key, raw_value, timestamp, headers = output
        keys, values = self._sinks[topic]
        origin = (topic, 0, offset)
        key = deserialized(keys, raw_key, headers, "the key", origin)
        value = deserialized(values, raw_value, headers, "the value", origin)
        return Record(key, value, timestamp, headers, *origin)

    def read_output(self, topic: str) -> list[Record[Any, Any]]:
        """Return the records that sinks have written to a topic since the last call.

        If several sinks write to the topic, the serdes of the last of these sinks deserialise the
        keys and the values. The origin of a record is the topic, the partition 0 and the offset in
        the topic.

        Raises
        ------
        TopologyError
            No sink writes to the topic.
        """
        if topic not in self._sinks:
            known = ", ".join(map(repr, self._sinks)) or "no topic"
            raise TopologyError(f"no sink writes to the topic {topic!r}; sinks write to {known}")
        outputs, read = self._outputs[topic], self._read[topic]
        records = [self._record(outputs[at], at) for at in range(read, len(outputs))]
        self._read[topic] = len(outputs)
        return records

    def read_changelog(self, store: str) -> list[Record[bytes | None, bytes | None]]:
        """Return all records of the changelog of a store, without the commit markers of kstore.

        The keys and values are bytes, as in the changelog topic.
        """
        topic = self.metadata(store).changelog
        columns = without_marks(self._changelogs.of_store[store].records)
        return [  # a write without an input record has the time -1 (unknown)
            Record(one.key, one.value, max(one.timestamp, 0), one.headers, topic, 0, at)
            for at, one in enumerate(columns)
        ]

    def metadata(self, store: str) -> StoreMetadata:
        """Return the description of a store.

        Raises
        ------
        TopologyError
            The topology has no such store.
        """
        opened = self.store(store)
        part = next(part for part in self._topology.subtopologies if opened.spec in part.specs)
        users = (node for node in part.nodes if isinstance(node, ProcessorNode))
        return StoreMetadata(
            opened.spec,
            part.id,
            tuple(node.name for node in users if store in node.stores),
            tuple(part.sources),
            self._changelogs.of_store[store].topic,
            opened.position,
        )

    def store(self, name: str) -> Any:
        """Return a store of the topology.

        The driver commits a write to the store with the next record or the next
        :meth:`advance_wall_clock`. Without a later commit, the write is lost.

        Raises
        ------
        TopologyError
            The topology has no such store.
        """
        self._check()
        spec = self._topology.specs.get(name)
        if spec is None:
            known = ", ".join(map(repr, self._topology.specs)) or "none"
            raise TopologyError(f"the topology has no store {name!r} (its stores: {known})")
        return self._state.open(spec)

    def close(self) -> None:
        """Close the processors and the stores. A second call does nothing."""
        self._open = False
        self._resources.close()

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError("the test driver is closed; make another one")
