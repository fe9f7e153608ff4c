"""The nodes of a running task, which are the contexts of its processors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from kstore_core.checks import check_choice
from kstore_core.codec import Headers
from kstore_core.errors import SpecError, StateError, TopologyError
from kstore_core.offsets.entries import Partition
from kstore_core.processing.nodes import Node, ProcessorNode, Sink, serdes_of
from kstore_core.processing.processor import Process, Processor, TimeKind
from kstore_core.processing.queues import Output, Schedule, Schedules
from kstore_core.processing.record import Record
from kstore_core.serdes import Serde
from kstore_core.typed.serde_failures import serde_error
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["RunningNode", "TaskContext", "deserialized", "name_of", "serialized"]

Origin: TypeAlias = tuple[str | None, int, int]
"""The topic, the partition and the offset of a record."""

_TIMES = ("stream_time", "wall_clock")


@dataclass
class TaskContext:
    """The times and the current record of a task, which its nodes share.

    Attributes
    ----------
    system_time : int
        The wall-clock time in ms at which the current step began.
    stream_time : int
        The greatest time (ms) of the processed records; -1 before the first record.
    partition_times : dict of (str, int) to int
        For each topic and partition, the greatest time (ms) of the processed records.
    record : RecordContext or None
        The context of the current record; None while the task does nothing.
    running : RunningNode or None
        The node that runs, or that raised an error.
    outputs : list of Output
        The records that sinks sent.
    schedules : dict of str to Schedules
        The schedules for ``"stream_time"`` and for ``"wall_clock"``.
    """

    system_time: int
    stream_time: int = -1
    partition_times: dict[Partition, int] = field(default_factory=dict)
    record: RecordContext | None = None
    running: RunningNode | None = None
    outputs: list[Output] = field(default_factory=list)
    schedules: dict[str, Schedules] = field(
        default_factory=lambda: {time: Schedules() for time in _TIMES}
    )

    def now(self, time: TimeKind) -> int:
        """Return the current stream time or wall-clock time in ms."""
        check_choice("time", time, _TIMES)
        return self.stream_time if time == "stream_time" else self.system_time

    def advance(self, partition: Partition, time: int) -> None:
        """Advance stream time and the time of a partition to ``time``, if ``time`` is later."""
        self.partition_times[partition] = max(time, self.partition_times.get(partition, -1))
        self.stream_time = max(time, self.stream_time)


class RunningNode:
    """A node of a running task, which is also the context of its processor.

    :class:`kstore_core.processing.Context` describes the methods for processors.
    """

    def __init__(
        self,
        node: Node,
        task: TaskContext,
        within: Callable[[RecordContext], AbstractContextManager[RecordContext]],
        stores: dict[str, Any],
    ) -> None:
        self.name = node.name
        self.children: dict[str, RunningNode] = {}
        self._task = task
        self._is_open = False
        self._schedules = 0
        self._within = within
        self._stores: dict[str, Any] = {}
        self._processor: Processor | None = None
        self._process: Process = self.forward
        if isinstance(node, Sink):
            self._process = partial(_send, node.topic, serdes_of(node, node.topic), task.outputs)
        elif isinstance(node, ProcessorNode):
            self._stores = {name: stores[name] for name in node.stores}
            self._processor, self._process = node.make(self)

    def init(self) -> None:
        """Initialise the processor."""
        if self._processor is not None:
            self.run(self._processor.init, self)
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
        self.run(self._process, record)
        self._task.running = parent  # After an error, the note must name the failed node.

    def run(self, call: Callable[..., object], *args: object) -> None:
        """Call a function of the processor. During the call, its stores use the current record."""
        record = self._task.record
        if not self._stores or record is None:
            call(*args)
            return
        with self._within(record):
            call(*args)

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
        now = self._task.now(time)
        if type(interval_ms) is not int or interval_ms < 1:
            raise SpecError(f"interval_ms must be an int, 1 or more, not {interval_ms!r}")
        if start is not None:
            first = to_millis(start)
        else:
            first = 0 if time == "stream_time" else now + interval_ms
        self._schedules += 1
        made = Schedule(first, interval_ms, callback, self, f"{self.name}/{self._schedules}")
        if start is not None and first < now:
            made.advance(now)
        self._task.schedules[time].add(made)
        return made

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


def _send(
    topic: str,
    serdes: tuple[Serde[Any], Serde[Any]],
    outputs: list[Output],
    record: Record[Any, Any],
) -> None:
    headers = record.headers
    key = serialized(serdes[0], record.key, headers, "the key for the topic", topic)
    value = serialized(serdes[1], record.value, headers, "the value for the topic", topic)
    outputs.append(Output(topic, key, value, record.timestamp, headers.copy()))


def serialized(
    serde: Serde[Any], given: Any, headers: Headers, what: str, place: str
) -> bytes | None:
    """Return the bytes of a key or a value, or None for None. The serde may add headers."""
    try:
        return None if given is None else serde.serialize(given, headers)
    except Exception as error:
        raise serde_error(error, f"the serde {serde.name} cannot write {what} {place}") from error


def deserialized(
    serde: Serde[Any], data: bytes | None, headers: Headers, what: str, origin: Origin
) -> Any:
    """Deserialise the key or the value of the record at ``origin``. Return None if it is None."""
    try:
        return None if data is None else serde.deserialize(data, headers)
    except Exception as error:
        text = f"the serde {serde.name} cannot read {what} of {name_of(origin)}"
        raise serde_error(error, text) from error


def name_of(origin: Origin) -> str:
    """Return the name of a record in errors."""
    topic, partition, offset = origin
    return f"{topic}-{partition}@{offset}"
