"""The results of queries: a value or a failure, and the store's position."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from kstore_core.errors import QueryError
from kstore_core.offsets.position import Position
from kstore_core.types import Headers

__all__ = ["FailureReason", "QueryResult", "ReadOnlyRecord"]

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class FailureReason(StrEnum):
    """The reason of a failed query; Kafka Streams' names."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """A store of this shape and format does not answer such a query."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """The query requires the writer, and this store is read-only."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """The store's position is before the bound; query again later."""
    NOT_PRESENT = "NOT_PRESENT"
    """The query reads committed data, and the store has none yet."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """There is no such partition. For queries to many partitions; a store never returns it."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """The store raised an exception: it is in the message, and the cause of ``get``'s error."""


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[R]):
    """The answer to a query.

    Attributes
    ----------
    position : Position
        The store's position when it answered. The result may contain newer writes too.
    result
        None if the query failed, or if there is no value.
    failure_reason : FailureReason or None
        None if the query succeeded.
    failure_message : str
    execution_info : tuple of str
        The store, the isolation and the time taken, if the query collected them.
    cause : Exception or None
        The exception of the store, if the reason is STORE_EXCEPTION.
    """

    position: Position
    result: R | None = None
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    execution_info: tuple[str, ...] = ()
    cause: Exception | None = field(default=None, repr=False, compare=False)

    @property
    def is_success(self) -> bool:
        """True if there is a result, which may be None."""
        return self.failure_reason is None

    def get(self) -> R | None:
        """Return the result.

        Raises
        ------
        QueryError
            The query failed; the error has the reason.
        """
        if self.failure_reason is not None:
            raise QueryError(
                f"a query failed with {self.failure_reason}: {self.failure_message}",
                self.failure_reason,
            ) from self.cause
        return self.result


@dataclass(frozen=True, slots=True)
class ReadOnlyRecord(Generic[K, V]):
    """A record that a query with headers gives; its headers are read-only.

    Attributes
    ----------
    key
        A :class:`~kstore_core.Windowed` for windows and sessions.
    value
    timestamp : int
        Milliseconds; the end of a session.
    headers : Headers
    """

    key: K
    value: V
    timestamp: int
    headers: Headers
