"""State stores in the formats of Kafka Streams, with the headers and the history of records.

>>> from kstore_core import open_state, stores, serdes
>>> spec = stores.timestamped_key_value_with_headers("orders", key=serdes.UTF8, value=serdes.JSON)
>>> with open_state("state/0_0", engine="memory") as state:
...     store = state.open(spec)
...     store.put("o-1", {"total": 12}, timestamp=1, headers=[("trace-id", b"abc")])
...     store.get("o-1").headers.last("trace-id")
Header('trace-id', b'abc')

Importing this package loads few modules. The first use of a public name imports its module.
"""

from typing import TYPE_CHECKING

from kstore_core.lazy import lazily
from kstore_core.moved import install

if TYPE_CHECKING:
    from kstore_core import serdes, stores
    from kstore_core.errors import KStoreError
    from kstore_core.spec import StoreSpec
    from kstore_core.state import StateDirectory, open_state
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
        Windowed,
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
    "Windowed",
    "open_state",
    "serdes",
    "stores",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(__all__, "types"),
        "KStoreError": "errors",
        "StateDirectory": "state",
        "StoreSpec": "spec",
        "open_state": "state",
        "serdes": None,
        "stores": None,
    },
)

install()
del install, lazily
