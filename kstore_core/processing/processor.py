"""The interfaces of processors and of the context that a task gives to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from kstore_core.codec import Headers
from kstore_core.processing.record import Record
from kstore_core.types import Time

__all__ = ["AnyProcessor", "Cancellable", "Context", "Process", "Processor", "TimeKind"]

TimeKind: TypeAlias = Literal["stream_time", "wall_clock"]


class Cancellable(Protocol):
    """The handle of a schedule."""

    def cancel(self) -> None:
        """End the schedule. Its callback is not called again. A second call does nothing."""


class Context(Protocol):
    """The interface that a processor uses to read and write stores and to forward records.

    Attributes
    ----------
    name : str
        The name of the processor in the topology.
    """

    name: str

    def store(self, name: str) -> Any:
        """Return a store of the processor.

        During :meth:`Processor.process`, a write to the store uses the time and the headers of the
        record by default. A write also advances the position of the store to the record's offset.

        Raises
        ------
        TopologyError
            The topology does not connect the store with this processor.
        """

    def forward(self, record: Record[Any, Any], to: str | None = None) -> None:
        """Send a record to the children of the processor, and wait until they have processed it.

        Parameters
        ----------
        record : Record
        to : str, optional
            The name of the only child that gets the record. By default, all children get the
            record, in the order in which they were added to the topology.

        Raises
        ------
        TopologyError
            ``to`` is not the name of a child.
        StateError
            The call is outside :meth:`Processor.process` and outside the callback of a schedule.
        """

    def schedule(
        self,
        interval_ms: int,
        time: TimeKind,
        callback: Callable[[int], object],
        *,
        start: Time | None = None,
    ) -> Cancellable:
        """Call ``callback(time)`` regularly, where ``time`` is the current time in ms.

        If time advances by several intervals at once, the callback is called only once. The
        callback can use stores and :meth:`forward`, like :meth:`Processor.process`. During the
        callback, :attr:`headers` is empty, and forwarded records have no origin.

        Parameters
        ----------
        interval_ms : int
        time : {"stream_time", "wall_clock"}
            The clock that the schedule follows. Stream time is the greatest time of the records
            that the task has processed; it advances only with records.
        callback : callable
        start : int or datetime, optional
            The time of the first call. If this time has passed, the first call is at the next time
            that is a whole number of intervals after ``start``. By default, the first call is after
            the next record for stream time, and one interval from now for wall-clock time.

        Returns
        -------
        Cancellable

        Raises
        ------
        SpecError
            The interval is less than 1 ms, or ``time`` is not one of the two words.
        """

    @property
    def headers(self) -> Headers:
        """The headers of the current record, which writes to stores use."""

    @property
    def stream_time(self) -> int:
        """The greatest time (ms) of the processed records of the task; -1 before the first."""

    @property
    def system_time(self) -> int:
        """The wall-clock time in ms at which the processing of the current record began."""

    @property
    def partition_time(self) -> int:
        """The greatest time in ms of the records of the current record's partition (KIP-472).

        The callback of a schedule has no partition. During a callback, the property is the stream
        time of the task.
        """


class Processor:
    """The base class of processors. Override :meth:`process`.

    Attributes
    ----------
    context : Context
        Set by :meth:`init`.
    """

    context: Context

    def init(self, context: Context) -> None:
        """Prepare the processor for a task. Records cannot be forwarded yet."""
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        """Process a record.

        The record is sent to a child only if the processor calls :meth:`Context.forward`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define process(record)")

    def close(self) -> None:
        """Release the resources that :meth:`init` acquired. Do not use the stores any more."""


Process: TypeAlias = Callable[[Record[Any, Any]], object]
AnyProcessor: TypeAlias = (
    Processor | type[Processor] | Callable[[Context, Record[Any, Any]], object]
)
"""A processor of a topology: an object that each task copies, a class, or a function."""
