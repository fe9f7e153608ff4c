"""Functions that answer a query. They check the query, read the store and create the result."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal, get_args

from kstore_core.checks import check_choice
from kstore_core.errors import ForkedHandleError, StoreClosedError
from kstore_core.offsets.position import Position
from kstore_core.query.bound import PositionBound
from kstore_core.query.forms import Unanswered
from kstore_core.query.handlers import SCANS, reading
from kstore_core.query.parts import StoreParts
from kstore_core.query.queries import Query
from kstore_core.query.result import FailureReason, QueryResult
from kstore_core.tables.scan import Scan

__all__ = ["Isolation", "answer"]

Isolation = Literal["uncommitted", "committed"]
"""The data that a query reads: all writes, or only the writes of the last commit."""


def answer(
    store: StoreParts,
    query: Query,
    bound: PositionBound | None,
    isolation: Isolation,
    *,
    require_active: bool,
    collect_execution_info: bool,
) -> QueryResult[Any]:
    """Return the result of a query, for ``store.query``."""
    if not isinstance(query, Query):
        raise TypeError(f"query must be an object of kstore_core.query, not {query!r}")
    if bound is None:
        bound = PositionBound.unbounded()
    elif not isinstance(bound, PositionBound):
        raise TypeError(f"bound must be a PositionBound, not {bound!r}")
    check_choice("isolation", isolation, get_args(Isolation))
    begun = time.perf_counter_ns()
    context = store.context
    if require_active and context.read_only:
        why = (
            "the store is open read-only, but the query requires the writer; send the query to the "
            "state that writes the store"
        )
        result = _failed(store, FailureReason.NOT_ACTIVE, why, context.position_now())
    elif isolation == "committed" and not context.read_only:
        result = _from_committed(store, query, bound)
    else:
        result = _from(store, query, bound)
    if not collect_execution_info:
        return result
    spent = time.perf_counter_ns() - begun
    how = " below its cache" if getattr(query, "skip_cache", False) and context.cache else ""
    info = f"Handled in {store.label}{how}, {isolation}, in {spent}ns"
    return replace(result, execution_info=(*result.execution_info, info))


def _from(store: StoreParts, query: Query, bound: PositionBound) -> QueryResult[Any]:
    context = store.context
    if not context.open:
        raise StoreClosedError(f"the store {store.spec.name!r} has been closed; open it again")
    # The position is read before the rows, so the rows contain at least all writes up to it.
    position = context.position_now(below_cache=getattr(query, "skip_cache", False))
    try:
        read = reading(store, query)
    except Unanswered as why:
        message = f"the store cannot answer {query}: {why}"
        return _failed(store, FailureReason.UNKNOWN_QUERY_TYPE, message, position)
    if not bound.is_reached(position, context.partition):
        message = f"the store is at {position}, but the query requires {bound.position}"
        if context.partition is not None:
            message += f" in partition {context.partition}"
        return _failed(store, FailureReason.NOT_UP_TO_BOUND, message, position)
    try:
        return QueryResult(position, _counted(store, query, read))
    except (StoreClosedError, ForkedHandleError):
        raise
    except Exception as error:  # noqa: BLE001 - any error of a store becomes a failed result
        message = f"{query} failed:\n{''.join(traceback.format_exception(error))}"
        return _failed(store, FailureReason.STORE_EXCEPTION, message, position, error)


def _counted(store: StoreParts, query: Query, read: Callable[[], Any]) -> Any:
    measures = store.context.measures
    return read() if measures is None else measures.queried(read, scans=type(query) in SCANS)


def _failed(
    store: StoreParts,
    reason: FailureReason,
    message: str,
    position: Position,
    cause: Exception | None = None,
) -> QueryResult[Any]:
    text = (
        f"the store {store.spec.name!r} ({store.spec.shape}, {store.spec.format.name}): {message}"
    )
    return QueryResult(position, failure_reason=reason, failure_message=text, cause=cause)


def _from_committed(store: StoreParts, query: Query, bound: PositionBound) -> QueryResult[Any]:
    """Answer a query from the last commit.

    If the result is a scan, the snapshot of the commit stays open until the scan ends.
    """
    with ExitStack() as open_until_here:
        lease = store.context.view()()
        open_until_here.callback(lease.release)
        committed = lease.view.open(replace(store.spec, cache=None, metrics=None))
        result = _from(committed.parts, query, bound)
        if isinstance(result.result, Scan):
            result.result.watch(_Closing(open_until_here.pop_all()))
        return result


class _Closing:
    """An object that closes an exit stack when Python frees the object."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __del__(self) -> None:
        self._stack.close()
