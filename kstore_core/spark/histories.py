"""The history of shards read whole, for a join to keep: every version that still answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kstore_core import arrow
from kstore_core.spark.columns import combined, integers
from kstore_core.spark.contents import Selection, ShardReader, versions
from kstore_core.spark.manifest import Shard
from kstore_core.spark.snapshots import FOREVER, Snapshot

__all__ = ["snapshot_of"]


def snapshot_of(reader: ShardReader, shards: Sequence[Shard], *, headers: bool) -> Snapshot:
    """What a temporal join needs of shards: the versions that their stores still answer with."""
    spec = reader.spec
    columns = ("key", "value", "timestamp", "valid_to", *(["headers"] if headers else []))
    tables = []
    for shard in shards:
        if shard.path is not None:
            with reader.open(shard) as store:
                horizon = store.clock.horizon
                since = Selection(history=True, from_ts=horizon)
                for table in versions(store, since, columns):
                    horizons = pa.array(np.full(table.num_rows, horizon, np.int64))
                    tables.append(table.select(columns).append_column("horizon", horizons))
    if not tables:
        return Snapshot.empty(spec.value.arrow_type, headers=headers)
    whole = pa.concat_tables(tables)
    found = {name: combined(whole[name], name) for name in whole.column_names}
    return Snapshot.of(
        found["key"],
        integers(found["timestamp"]),
        integers(found["valid_to"].fill_null(FOREVER)),
        arrow.to_typed(spec.value, found["value"]),
        found.get("headers"),
        integers(found["horizon"]),
    )
