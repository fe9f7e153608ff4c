"""State stores that keep a record's headers and its history.

>>> from kstore_core import open_state, stores, serdes
>>> spec = stores.timestamped_key_value_with_headers("orders", key=serdes.UTF8, value=serdes.JSON)
>>> with open_state("state/0_0", engine="memory") as state:
...     store = state.open(spec)
...     store.put("o-1", {"total": 12}, timestamp=1, headers=[("trace-id", b"abc")])
...     store.get("o-1").headers.last("trace-id")
Header('trace-id', b'abc')

Importing this package loads no engine, no pyspark and no pyarrow.
"""

from kstore_core import serdes, stores
from kstore_core.errors import KStoreError
from kstore_core.state import StateDirectory, open_state
from kstore_core.stores import StoreSpec
from kstore_core.types import (
    LATEST,
    NOT_PUT,
    AggregationWithHeaders,
    Header,
    Headers,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    VersionedRecordWithHeaders,
)

__all__ = [
    "LATEST",
    "NOT_PUT",
    "AggregationWithHeaders",
    "Header",
    "Headers",
    "KStoreError",
    "StateDirectory",
    "StoreSpec",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedRecord",
    "VersionedRecordWithHeaders",
    "open_state",
    "serdes",
    "stores",
]
