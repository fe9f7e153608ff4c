"""What a shard holds, as Arrow columns: opened read-only on a worker, decoded chunk by chunk."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.clock import segment_id
from kstore_core.codec import decode_column, explode_versions, split_column
from kstore_core.spark.columns import combined
from kstore_core.spark.manifest import Shard
from kstore_core.spark.roots import Root
from kstore_core.spec import StoreSpec
from kstore_core.tables import Bounds
from kstore_core.versioned import LATEST_PREFIX

__all__ = ["Selection", "ShardReader", "versions"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which versions of a versioned store are read; everything of another store.

    Attributes
    ----------
    as_of : int or None
        Those valid at this time, ms.
    history : bool
        All of them, or those valid at some time in ``[from_ts, to_ts]``, ms, None open. Without it
        and without ``as_of``, the latest.
    """

    as_of: int | None = None
    history: bool = False
    from_ts: int | None = None
    to_ts: int | None = None


@dataclass(frozen=True, slots=True)
class ShardReader:
    """Reads the shards of one version of a store."""

    root: Root
    spec: StoreSpec
    engine: str

    @contextmanager
    def open(self, shard: Shard) -> Iterator[Any]:
        """The shard's store, read-only."""
        from kstore_core import open_state

        assert shard.path is not None
        path = self.root.check(shard.path, shard.files)
        with open_state(path, engine=self.engine, read_only=True) as state:
            yield state.open(self.spec)

    def chunks(
        self, shard: Shard, selection: Selection, columns: Collection[str]
    ) -> Iterator[pa.Table]:
        """Tables of key and value (binary), and of timestamp, valid_to (ms) and headers as kept.

        What is not in ``columns`` need not be decoded, and may be missing.
        """
        if shard.path is None:
            return
        with self.open(shard) as store:
            if self.spec.format.versioned:
                yield from versions(store, selection, columns)
            else:
                yield from _latest(store, columns)


def _latest(store: Any, wanted: Collection[str]) -> Iterator[pa.Table]:
    value_format = store.spec.format
    for keys, rows in store.table.scan(Bounds()):
        columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(rows, pa.binary())}
        if value_format.headers:
            decode = decode_column if "headers" in wanted else split_column
            columns["value"], columns["timestamp"], columns["headers"] = decode(columns["value"])
        elif value_format.timestamped:
            columns["value"], columns["timestamp"], _ = decode_column(
                columns["value"], layout="value_and_timestamp"
            )
        yield pa.table(columns)


def versions(store: Any, selection: Selection, columns: Collection[str]) -> Iterator[pa.Table]:
    """The selected versions of an open store, as :meth:`ShardReader.chunks` gives them."""
    for keys, rows in store.table.rows.scan(Bounds(_first_row(store, selection))):
        exploded = explode_versions(pa.array(keys, pa.binary()), pa.array(rows, pa.binary()))
        table = pa.table(exploded, names=["key", "value", "timestamp", "valid_to"])
        wanted = _wanted(selection, table)
        if wanted is not None:
            table = table.filter(wanted)
        if not table.num_rows:
            continue
        if store.spec.format.headers and not {"value", "headers"}.isdisjoint(columns):
            decode = decode_column if "headers" in columns else split_column
            values, _, headers = decode(
                combined(table["value"], "value"), layout="aggregation_with_headers"
            )
            table = table.set_column(1, "value", values).append_column("headers", headers)
        yield table


def _first_row(store: Any, selection: Selection) -> bytes | None:
    """Where the rows that can hold what is selected begin: versions lie by valid-to."""
    if not selection.history:
        time, begin = selection.as_of, selection.as_of
        if time is None:
            return LATEST_PREFIX
    else:
        time, begin = selection.to_ts, selection.from_ts
    if time is not None and store.table.expired(time):
        return LATEST_PREFIX
    if begin is None or begin < 0:
        return None
    return segment_id(begin, store.spec.segment_interval_ms).to_bytes(8, "big")


def _wanted(selection: Selection, table: pa.Table) -> pa.ChunkedArray | None:
    """Which versions are selected; None for all of them."""
    first, last = selection.as_of, selection.as_of
    if selection.history:
        first, last = selection.from_ts, selection.to_ts
    begun = None if last is None else pc.less_equal(table["timestamp"], last)
    if first is None:
        return begun
    still = pc.fill_null(pc.greater(table["valid_to"], first), True)
    return still if begun is None else pc.and_(begun, still)
