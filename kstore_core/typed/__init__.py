"""The stores of the four shapes, which are key-value, versioned, window and session."""

from kstore_core.tables.scan import Scan
from kstore_core.typed.key_value import (
    KeyValueStore,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
)
from kstore_core.typed.read_only import (
    ReadOnlySessionStore,
    ReadOnlySessionStoreWithHeaders,
    ReadOnlyWindowStore,
)
from kstore_core.typed.session import SessionStore, SessionStoreWithHeaders
from kstore_core.typed.versioned import (
    OnExpired,
    VersionedKeyValueStore,
    VersionedKeyValueStoreWithHeaders,
    VersionedStore,
)
from kstore_core.typed.window import (
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    WindowStore,
)

__all__ = [
    "KeyValueStore",
    "OnExpired",
    "ReadOnlySessionStore",
    "ReadOnlySessionStoreWithHeaders",
    "ReadOnlyWindowStore",
    "Scan",
    "SessionStore",
    "SessionStoreWithHeaders",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "TimestampedWindowStore",
    "TimestampedWindowStoreWithHeaders",
    "VersionedKeyValueStore",
    "VersionedKeyValueStoreWithHeaders",
    "VersionedStore",
    "WindowStore",
]
