"""Functions that run code where the root is: in this process, or on a Spark Connect cluster.

The client of a Spark Connect server may run on a machine that does not see the root. With Spark
Connect, a task on the cluster therefore does the driver's work.
"""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from kstore_core.spark.runtime.worker_errors import told, typed_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["is_connect", "is_retry", "on_server"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def is_connect(spark: SparkSession | None) -> bool:
    """Return True if ``spark`` is the session of a Spark Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def is_retry() -> bool:
    """Return True if this process runs a retry of a Spark task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0


def on_server(
    spark: SparkSession | None,
    function: Callable[Given, Answer],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Answer:
    """Call a function where the root is, and return its result.

    With a classic session or None, call the function in this process. With a session of Spark
    Connect, call the function in one task on the cluster. The arguments, the result and the
    exceptions of the function must then support pickle. Spark may call the function again if the
    worker of the task dies, so the function must be idempotent. Exceptions and warnings of the task
    are raised in this process.
    """
    if spark is None or not is_connect(spark):
        return function(*args, **kwargs)
    call = _Call(functools.partial(function, *args, **kwargs))
    with typed_errors():
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(told(call.run), "outcome binary").collect()
    result, error, warned = pickle.loads(row.outcome)
    for message, category in warned:
        warnings.warn(message, category, stacklevel=3)
    if error is not None:
        raise error
    answer: Answer = result
    return answer


class _Call:
    """A function without arguments, whose outcome a task returns as one row."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call the function for the only row of the input, and yield the pickled outcome."""
        import pyarrow as pa
        from pyspark import cloudpickle

        for _ in (row for batch in batches for row in range(batch.num_rows)):
            result, error = None, None
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always", UserWarning)
                try:
                    result = self._function()
                except Exception as raised:  # noqa: BLE001 - the client raises it
                    error = raised.with_traceback(None)
            told = [(str(each.message), each.category) for each in warned]
            outcome = cloudpickle.dumps((result, error, told))  # type: ignore[no-untyped-call]
            column = pa.array([outcome], pa.binary())
            yield pa.RecordBatch.from_arrays([column], ["outcome"])
