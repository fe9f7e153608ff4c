"""The record that processors receive and forward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from kstore_core.codec import Headers
from kstore_core.types import Time, to_millis

__all__ = ["Record"]

K = TypeVar("K")
V = TypeVar("V")
_CONTENT = ("key", "value", "timestamp", "headers")
_ORIGIN = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, init=False)
class Record(Generic[K, V]):
    """A record of a topology. Its attributes cannot be assigned; :meth:`replace` makes a copy.

    As in Kafka Streams, the headers of a record are a copy of the argument, and can be changed. If
    a processor forwards a record to several children, the children share its headers.

    Two records are equal if their keys, values, timestamps and headers are equal. Their origins may
    differ.

    Attributes
    ----------
    key, value : object or None
    timestamp : int
        The time of the record in ms. The argument may also be a datetime with a time zone.
    headers : Headers
    topic, partition, offset : str or None, int, int
        The origin of this record: the input record whose processing led to this record. The values
        are None, -1 and -1 without an input record, as in the callback of a schedule.

    Raises
    ------
    ValueError
        The timestamp is negative.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers
    topic: str | None = field(compare=False)
    partition: int = field(compare=False)
    offset: int = field(compare=False)

    def __init__(
        self,
        key: K,
        value: V,
        timestamp: Time,
        headers: Any = (),
        topic: str | None = None,
        partition: int = -1,
        offset: int = -1,
    ) -> None:
        millis = timestamp if type(timestamp) is int else to_millis(timestamp)
        if not 0 <= millis < 2**63:
            raise ValueError(f"the timestamp of a record must be from 0 to 2**63 - 1, not {millis}")
        _assign(self, (key, value, millis, Headers(headers), topic, partition, offset))

    def replace(self, **changes: Any) -> Record[Any, Any]:
        """Return a copy with other attributes. The copy has its own Headers object.

        Raises
        ------
        TypeError
            A keyword is not the name of an attribute.
        """
        known = [changes.pop(name, getattr(self, name)) for name in _CONTENT + _ORIGIN]
        return Record(*known, **changes)

    def with_origin(self, topic: str | None, partition: int, offset: int) -> Self:
        """Return a record with another origin and the same content and Headers object."""
        if (self.topic, self.partition, self.offset) == (topic, partition, offset):
            return self
        made = object.__new__(type(self))
        content = (self.key, self.value, self.timestamp, self.headers)
        _assign(made, (*content, topic, partition, offset))
        return made


# The attributes are frozen. The setters of the slots are the fastest way to set the attributes.
_SETTERS = [getattr(Record, name).__set__ for name in _CONTENT + _ORIGIN]


def _assign(record: Record[Any, Any], values: tuple[Any, ...]) -> None:
    for setter, value in zip(_SETTERS, values, strict=True):
        setter(record, value)
