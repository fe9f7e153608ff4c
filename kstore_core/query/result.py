"""The results of queries. A result has a value or a failure, and the position of the store."""

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
    """The reasons why queries fail, with the names of Kafka Streams."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """A store of this shape and format does not answer such a query."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """The query requires the writer, and this store is read-only."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """The store has not reached the position that the bound requires; retry the query later."""
    NOT_PRESENT = "NOT_PRESENT"
    """Another process has the partition. A store never returns this reason; an application may."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """The partition does not exist. A store never returns this reason; an application may."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """The store raised an exception, which is the ``cause`` of the result."""


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[R]):
    """The answer to a query.

    Attributes
    ----------
    position : Position
        The position of the store when the query began. The result contains all writes up to this
        position, and may contain newer writes.
    result
        The value, or a scan of the items. None if the query failed or if there is no value.
    failure_reason : FailureReason or None
        The reason why the query failed; None if it succeeded.
    failure_message : str
        A description of the failure; empty if the query succeeded.
    execution_info : tuple of str
        One text that names the store, the isolation and the time that the query took; empty unless
        the caller requested it.
    cause : Exception or None
        The exception that the store raised if the reason is STORE_EXCEPTION, otherwise None.
    """

    position: Position
    result: R | None = None
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    execution_info: tuple[str, ...] = ()
    cause: Exception | None = field(default=None, repr=False, compare=False)

    @property
    def is_success(self) -> bool:
        """True if the query succeeded. The result may be None even then."""
        return self.failure_reason is None

    def get(self) -> R | None:
        """Return the result.

        Raises
        ------
        QueryError
            The query failed. The error contains the reason.
        """
        if self.failure_reason is not None:
            raise QueryError(
                f"a query failed with {self.failure_reason}: {self.failure_message}",
                self.failure_reason,
            ) from self.cause
        return self.result


@dataclass(frozen=True, slots=True)
class ReadOnlyRecord(Generic[K, V]):
    """A record that a query with ``WithHeaders`` in its name returns.

    Attributes
    ----------
    key
        The key of the record; a :class:`~kstore_core.Windowed` for a window or session.
    value
        The value of the record; for a session, its aggregate.
    timestamp : int
        The timestamp in ms since the epoch; for a session, the end of the session.
    headers : Headers
        The headers, which are read-only.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers
