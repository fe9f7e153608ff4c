"""The accessors of a test driver's stores, one for each factory of :mod:`kstore_core.stores`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar, cast

from kstore_core.errors import TopologyError
from kstore_core.spec import StoreSpec
from kstore_core.typed import (
    KeyValueStore,
    SessionStore,
    SessionStoreWithHeaders,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    VersionedKeyValueStore,
    VersionedKeyValueStoreWithHeaders,
    WindowStore,
)

__all__ = ["StoreAccessors"]

_S = TypeVar("_S")


def _factory_of(spec: StoreSpec) -> str:
    """Return the name of the function in `kstore_core.stores` that makes specs of this kind."""
    shape = "versioned_key_value" if spec.shape == "versioned" else spec.shape
    is_timestamped = spec.format.timestamped and spec.shape != "versioned"
    prefix = "timestamped_" if is_timestamped else ""
    return f"{prefix}{shape}" + ("_with_headers" if spec.format.headers else "")


class StoreAccessors:
    """The accessors. They raise a TopologyError if the store is missing or of another kind."""

    @abstractmethod
    def store(self, name: str) -> Any:
        """Return a store of the topology."""

    def _made_by(self, factory: str, name: str, kind: type[_S]) -> _S:
        """Return a store of the type ``kind``. Raise TopologyError if it has another type."""
        store: Any = self.store(name)
        made_by = _factory_of(store.spec)
        if made_by != factory:
            accessor = f"get_{made_by}_store".replace("_with_headers_store", "_store_with_headers")
            raise TopologyError(
                f"the spec of the store {name!r} is from stores.{made_by}, not stores.{factory}. "
                f"Call {accessor}({name!r})"
            )
        return cast("_S", store)

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Return a store of `stores.key_value`."""
        return self._made_by("key_value", name, KeyValueStore[Any, Any])

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore[Any, Any]:
        """Return a store of `stores.timestamped_key_value`."""
        return self._made_by("timestamped_key_value", name, TimestampedKeyValueStore[Any, Any])

    def get_timestamped_key_value_store_with_headers(
        self, name: str
    ) -> TimestampedKeyValueStoreWithHeaders[Any, Any]:
        """Return a store of `stores.timestamped_key_value_with_headers`."""
        return self._made_by(
            "timestamped_key_value_with_headers",
            name,
            TimestampedKeyValueStoreWithHeaders[Any, Any],
        )

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Return a store of `stores.versioned_key_value`."""
        return self._made_by("versioned_key_value", name, VersionedKeyValueStore[Any, Any])

    def get_versioned_key_value_store_with_headers(
        self, name: str
    ) -> VersionedKeyValueStoreWithHeaders[Any, Any]:
        """Return a store of `stores.versioned_key_value_with_headers`."""
        return self._made_by(
            "versioned_key_value_with_headers", name, VersionedKeyValueStoreWithHeaders[Any, Any]
        )

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """Return a store of `stores.window`."""
        return self._made_by("window", name, WindowStore[Any, Any])

    def get_timestamped_window_store(self, name: str) -> TimestampedWindowStore[Any, Any]:
        """Return a store of `stores.timestamped_window`."""
        return self._made_by("timestamped_window", name, TimestampedWindowStore[Any, Any])

    def get_timestamped_window_store_with_headers(
        self, name: str
    ) -> TimestampedWindowStoreWithHeaders[Any, Any]:
        """Return a store of `stores.timestamped_window_with_headers`."""
        return self._made_by(
            "timestamped_window_with_headers", name, TimestampedWindowStoreWithHeaders[Any, Any]
        )

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Return a store of `stores.session`."""
        return self._made_by("session", name, SessionStore[Any, Any])

    def get_session_store_with_headers(self, name: str) -> SessionStoreWithHeaders[Any, Any]:
        """Return a store of `stores.session_with_headers`."""
        return self._made_by("session_with_headers", name, SessionStoreWithHeaders[Any, Any])
