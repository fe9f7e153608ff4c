"""The shapes: what a store looks like to its user."""

from kstore_core.typed.key_value import (
    KeyValueStore,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
)
from kstore_core.typed.scan import Scan
from kstore_core.typed.versioned import (
    OnExpired,
    VersionedKeyValueStore,
    VersionedKeyValueStoreWithHeaders,
    VersionedStore,
)

__all__ = [
    "KeyValueStore",
    "OnExpired",
    "Scan",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "VersionedKeyValueStore",
    "VersionedKeyValueStoreWithHeaders",
    "VersionedStore",
]
