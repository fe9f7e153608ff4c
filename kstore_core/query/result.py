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
    """Why a query has no result; Kafka Streams' names."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """A store of this shape and format does not answer such a query."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """The writer was asked for, and this is a reader."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """The store has not read far enough; ask again later."""
    NOT_PRESENT = "NOT_PRESENT"
    """Nothing of the store has been committed yet, and committed data were asked for."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """There is no such partition. For those who ask many partitions; a store never says so."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """An exception, which the message tells and which is the cause of what ``get`` raises."""


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[R]):
    """The answer to a query.

    Attributes
    ----------
    position : Position
        How far the store had read at least when it answered; what is newer may show as well.
    result
        None where the query failed, and where there is no value.
    failure_reason : FailureReason or None
        None where it succeeded.
    failure_message : str
    execution_info : tuple of str
        Who answered how and in how many nanoseconds, where that was asked for.
    cause : Exception or None
        What went wrong, where the reason is STORE_EXCEPTION.
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
        """The result.

        Raises
        ------
        QueryError
            The query failed; it has the reason.
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
        Of windows and sessions a :class:`~kstore_core.Windowed`.
    value
    timestamp : int
        Milliseconds; of a session its end.
    headers : Headers
    """

    key: K
    value: V
    timestamp: int
    headers: Headers
