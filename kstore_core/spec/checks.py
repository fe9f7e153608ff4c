"""What no store can be: orders, times, serdes and layers that do not go with its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.errors import SpecError
from kstore_core.spec.describing import TIMES, Shape

if TYPE_CHECKING:
    from kstore_core.spec.store_spec import StoreSpec

__all__ = ["check_layers", "check_order", "check_serdes", "check_times"]

_TIMES_OF: dict[Shape, tuple[str, ...]] = {
    "key_value": (),
    "versioned": ("history_retention_ms", "segment_interval_ms"),
    "window": ("retention_ms", "window_size_ms", "segment_interval_ms"),
    "session": ("retention_ms", "segment_interval_ms"),
}
_LEAST = {"segment_interval_ms": 1}


def check_order(spec: StoreSpec) -> None:
    """Refuse an order of rows that the store's shape does not have, and an index of none."""
    for name in ("time_ordered", "indexed"):
        if type(getattr(spec, name)) is not bool:
            raise SpecError(f"{name} is {getattr(spec, name)!r}; it is a bool")
    if spec.time_ordered and spec.shape not in ("window", "session"):
        raise SpecError(
            f"time_ordered is True for the {spec.shape} store {spec.name!r}; only window and "
            "session stores have rows by time"
        )
    if spec.indexed and not spec.time_ordered:
        raise SpecError(
            f"indexed is True for the store {spec.name!r}, which is not time-ordered; the rows of "
            "a key lie together without an index. Leave it out, or pass time_ordered=True"
        )


def check_times(spec: StoreSpec) -> None:
    """Refuse times that are missing, or that the store's shape does not have."""
    times = _TIMES_OF[spec.shape]
    for name in TIMES:
        if name in times:
            _check_millis(name, getattr(spec, name), least=_LEAST.get(name, 0))
        elif getattr(spec, name) is not None:
            raise SpecError(f"the store {spec.name!r} is a {spec.shape} store; it has no {name}")
    if type(spec.retain_duplicates) is not bool or (
        spec.retain_duplicates and spec.shape != "window"
    ):
        raise SpecError(
            f"retain_duplicates is {spec.retain_duplicates!r} for the {spec.shape} store "
            f"{spec.name!r}; it is a bool, and True for window stores only"
        )
    if spec.shape == "window" and spec.window_size_ms > spec.retention_ms:  # type: ignore[operator]
        raise SpecError(
            f"the store {spec.name!r} has retention_ms={spec.retention_ms}, which is less than "
            f"window_size_ms={spec.window_size_ms}; a window would expire before it ends"
        )


def _check_millis(name: str, millis: int | None, *, least: int) -> None:
    if type(millis) is not int:
        raise SpecError(f"{name} is int milliseconds, not {type(millis).__name__}")
    if not least <= millis < 2**63:
        raise SpecError(f"{name} is {millis}; it must be at least {least} and fit 64 bits")


def check_serdes(spec: StoreSpec) -> None:
    """Refuse what does not serialise, and what has no name to be kept."""
    for role, serde in (("key", spec.key), ("value", spec.value)):
        if not callable(getattr(serde, "serialize", None)) or not callable(
            getattr(serde, "deserialize", None)
        ):
            raise SpecError(
                f"the {role} serde of store {spec.name!r} is {serde!r}, which has no serialize "
                "and deserialize; see kstore_core.serdes"
            )
        if not isinstance(getattr(serde, "name", None), str):
            raise SpecError(
                f"the {role} serde of store {spec.name!r} is {serde!r}, whose name is not a "
                "str; it is kept with the store"
            )


def check_layers(spec: StoreSpec) -> None:
    """Refuse a cache or a sampling that cannot be."""
    cache, sampled = spec.cache, spec.metrics
    if not (cache is None or cache == "shared" or (type(cache) is int and 0 <= cache < 2**63)):
        raise SpecError(
            f"the cache of the store {spec.name!r} is {cache!r}; it is a number of bytes, 0 or more"
        )
    if cache is not None and spec.retain_duplicates:
        raise SpecError(f"the window store {spec.name!r} retains duplicates and cannot be cached")
    if not (sampled is None or (type(sampled) is int and 1 <= sampled < 2**31)):
        raise SpecError(
            f"the store {spec.name!r} is to time one call in {sampled!r}; that is an int from 1 on"
        )
    for name, setting in spec.changelog:
        if not (isinstance(name, str) and isinstance(setting, str)):
            raise SpecError(
                f"the changelog of the store {spec.name!r} is to have {name!r}={setting!r}; "
                "settings are str, by Kafka's names"
            )
