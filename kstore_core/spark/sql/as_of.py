"""The function register_as_of, which registers a function of SQL that looks up versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore_core.checks import check_choice
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.join.plan import source_at
from kstore_core.spark.join.tasks import JoinTask, in_parts, with_versions
from kstore_core.spark.join.versions import Source
from kstore_core.spark.read.read_store import Timestamps
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.shards.frames import accepted_types, spark_schema, spark_type
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, SparkSession

__all__ = ["register_as_of"]

_KEY, _TIME = 0, 1


def register_as_of(
    spark: SparkSession,
    root: str | os.PathLike[str],
    name: str = "kstore_as_of",
    *,
    headers: bool = True,
    timestamps: Timestamps = "timestamp",
    deterministic: bool = True,
    version: int | None = None,
    spec: StoreSpec | None = None,
    cache_bytes: int = 512 * 1024 * 1024,
    storage_options: Mapping[str, Any] | None = None,
) -> Callable[..., Column]:
    """Register a function of SQL that returns the version of a key that was valid at a time.

    In SQL, ``kstore_as_of(key, time)`` returns a struct with the fields ``value``, ``timestamp``,
    ``valid_to`` and, if the store has headers, ``headers``. The struct is null if the key has no
    version that was valid at the time, or if the key or the time is null. The result for each row
    is that of :func:`temporal_join`. The function is temporary: it exists in this session only.

    Every Python worker that evaluates the function caches all versions of the store. Use
    :func:`temporal_join` for a large store.

    Parameters
    ----------
    spark : SparkSession
        The session in which the function is registered.
    root : path or address
        The root of a partitioned versioned store. Spark must know the type of the result before it
        evaluates the function, so the root is not an argument of the function.
    name : str
        The name of the function. A function of this session with this name is replaced.
    headers : bool
        If true and the store has headers, the struct has the field ``headers``.
    timestamps : {"timestamp", "millis"}
        The type of ``timestamp`` and ``valid_to``: Spark timestamps, or long values in ms since the
        epoch.
    deterministic : bool
        If true, Spark may evaluate the function twice for a row in a query that filters the result.
        If false, Spark evaluates the function once, but evaluates the filters of the query after
        the function.
    version : int, optional
        The version of the store that the function reads. If None, the version that is newest when
        ``register_as_of`` is called.
    spec : StoreSpec, optional
        The spec of the store, which is needed only if a serde of the store is not built in.
    cache_bytes : int
        The greatest size of the cache of one Python worker in bytes. The files of the store must
        not be larger than this size.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    callable
        The function for DataFrames, which takes the columns of the key and of the time. The key
        must be binary, have the type of the store's key serde, or have a narrower type of numbers.
        The time must be a timestamp, or a long with ms since the epoch.

    Raises
    ------
    StateError
        The root has no version, or does not have the version ``version``.
    SpecError
        ``name`` is not an identifier, or ``timestamps`` is unknown. A query that uses the function
        fails with this error if the key or the time has a wrong type.
    TypeError
        ``version`` or ``cache_bytes`` is not an int.
    ValueError
        ``cache_bytes`` is negative.
    UnsupportedError
        The store is not versioned, or the files of the store are larger than ``cache_bytes``.
    """
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    if not name.isidentifier():
        raise SpecError(
            f"name={name!r} is not the name of a function; pass letters, digits and underscores "
            "that do not begin with a digit"
        )
    check_choice("timestamps", timestamps, ("timestamp", "millis"))
    source = source_at(
        spark,
        root,
        spec,
        version,
        headers=headers,
        broadcast_bytes=cache_bytes,
        cache_bytes=cache_bytes,
        storage_options=storage_options,
    )
    if not source.everywhere:
        size = sum(file.bytes for shard in source.shards for file in shard.files)
        raise UnsupportedError(
            f"the files of {source.reader.root} have {size} bytes, but {name} caches the whole "
            f"store in each Python worker, and cache_bytes is {cache_bytes}; use temporal_join, or "
            "pass a greater cache_bytes"
        )
    lookup = AsOf(source, name, as_millis=timestamps == "millis")
    udf: Any = arrow_udf  # some type checkers do not see the overload for a DataType
    function = udf(_evaluation(lookup), spark_type(lookup.result))
    if not deterministic:
        function = function.asNondeterministic()
    registered: Callable[..., Column] = spark.udf.register(name, function)
    return registered


@dataclass(frozen=True, slots=True)
class AsOf:
    """The store and the result of a function that :func:`register_as_of` has registered.

    Attributes
    ----------
    source : Source
        The store. Each task reads all versions of the store.
    name : str
        The name of the function, for errors.
    as_millis : bool
        If true, times in the result are in ms. If false, they are Spark timestamps.
    """

    source: Source
    name: str
    as_millis: bool

    @property
    def result(self) -> pa.StructType:
        """The type of the struct that the function returns."""
        import pyarrow as pa

        from kstore_core import arrow
        from kstore_core.spark.columns.arrow import TIMESTAMP

        time = pa.int64() if self.as_millis else TIMESTAMP
        fields = [("value", self.source.reader.spec.value.arrow_type)]
        fields += [("timestamp", time), ("valid_to", time)]
        if self.source.headers:
            fields.append(("headers", arrow.headers_type()))
        return pa.struct(fields)

    def evaluate(self, columns: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        """Yield the result for all rows, in their order, in arrays of any length."""
        import pyarrow as pa

        names = ("key", "time", *spark_schema(pa.schema(list(self.result))).names)
        task = JoinTask(
            self.source,
            _KEY,
            _TIME,
            names,
            inner=False,
            tolerance_ms=None,
            refuse_expired=False,
        )
        batches = (self._checked(keys, times) for keys, times in columns)
        for some, versions in with_versions(self.source, batches, task._keys_and_times):
            for joined in in_parts(partial(task.joined, versions), some):
                yield self._structs(joined)

    def _checked(self, keys: pa.Array, times: pa.Array) -> pa.RecordBatch:
        """Return a batch of the arguments. Raise a SpecError if an argument has a wrong type."""
        import pyarrow as pa

        untyped = pa.types.is_null  # SQL's NULL
        keys = keys.cast(pa.binary()) if untyped(keys.type) else keys
        times = times.cast(pa.int64()) if untyped(times.type) else times
        for what, column, allowed in (
            ("key", keys, accepted_types(self.source.reader.spec.key)),
            ("time", times, ("timestamp", "bigint")),
        ):
            kind = spark_type(column.type).simpleString()
            if kind not in allowed:
                raise SpecError(
                    f"the {what} of {self.name} is {kind}, but it must be "
                    f"{' or '.join(allowed)}; cast the {what}"
                )
        return pa.RecordBatch.from_arrays([keys, times], ["key", "time"])

    def _structs(self, joined: pa.RecordBatch) -> pa.Array:
        """Return the added columns of a joined batch as structs; null where no version matches."""
        import pyarrow as pa

        from kstore_core.spark.columns.arrow import millis, timestamps

        added = joined.columns[2:]
        for place in (1, 2):
            column = added[place]
            if pa.types.is_timestamp(column.type) == self.as_millis:
                if self.as_millis:
                    mask = column.is_null().to_numpy(zero_copy_only=False)
                    column = pa.array(millis(column)[0], mask=mask)
                else:
                    column = timestamps(column, as_millis=False)
                added[place] = column
        return pa.StructArray.from_arrays(added, fields=list(self.result), mask=added[1].is_null())


def _evaluation(lookup: AsOf) -> Callable[..., Any]:
    """Return a function that evaluates ``lookup``. Its annotations tell Spark how to call it."""
    import pyarrow as pa

    def evaluate(columns: Any) -> Any:
        return told(lookup.evaluate)(columns)

    evaluate.__annotations__ = {
        "columns": Iterator[tuple[pa.Array, pa.Array]],
        "return": Iterator[pa.Array],
    }
    return evaluate
