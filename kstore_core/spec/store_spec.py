"""The class `StoreSpec`, with which a program describes a store."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kstore_core import serdes
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat
from kstore_core.serdes import Serde
from kstore_core.spec.describing import TIMES, Shape, described, family
from kstore_core.spec.names import check_name

__all__ = ["StoreSpec"]

_TIMES_OF: dict[Shape, tuple[str, ...]] = {
    "key_value": (),
    "versioned": ("history_retention_ms", "segment_interval_ms"),
    "window": ("retention_ms", "window_size_ms", "segment_interval_ms"),
    "session": ("retention_ms", "segment_interval_ms"),
}
_LEAST = {"segment_interval_ms": 1}


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """The description of a store. The factories of :mod:`kstore_core.stores` create specs.

    Attributes
    ----------
    name : str
        The name of the store. It must have 1 to 249 characters of ``A-Za-z0-9._-``, and must not be
        ``.`` or ``..``.
    shape : {"key_value", "versioned", "window", "session"}
        The shape of the store.
    format : ValueFormat
        The format of the stored values.
    key, value : Serde
        The serde of the keys and the serde of the values.
    history_retention_ms : int or None
        For versioned stores, the retention in ms of stream time. The store retains old versions and
        accepts late records for this time. None for other stores.
    segment_interval_ms : int or None
        The width of a segment in ms, at least 1. None for key-value stores, which have no segments.
    retention_ms : int or None
        For window and session stores, the retention in ms of stream time. A window can be read for
        this time after its start. A session can be read for this time after its end. None for
        other stores.
    window_size_ms : int or None
        For window stores, the size of a window in ms. Rows do not contain the size. None for other
        stores.
    retain_duplicates : bool
        True for a window store in which a key and a window may have several values.
    time_ordered : bool
        True for a window or session store whose rows are sorted by time and then by key.
    indexed : bool
        True for a time-ordered store with an index, which lookups of one key use.
    cache : int, "shared" or None
        The setting of :meth:`with_cache`. It is not stored with the data.
    metrics : int or None
        The setting of :meth:`with_metrics`. It is not stored with the data.
    changelog : tuple of (str, str) pairs
        The setting of :meth:`with_changelog`. It is not stored with the data.

    Raises
    ------
    SpecError
        An attribute is not valid, or stores of this shape cannot have the format.
    """

    name: str
    shape: Shape
    format: ValueFormat
    key: Serde[Any] = serdes.BYTES
    value: Serde[Any] = serdes.BYTES
    history_retention_ms: int | None = None
    segment_interval_ms: int | None = None
    retention_ms: int | None = None
    window_size_ms: int | None = None
    retain_duplicates: bool = False
    time_ordered: bool = False
    indexed: bool = False
    cache: int | Literal["shared"] | None = None
    metrics: int | None = None
    changelog: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.format, ValueFormat):
            raise SpecError(
                f"format must be a ValueFormat of kstore_core.formats, not {self.format!r}"
            )
        _check_order(self)
        if self.family not in self.format.shapes:
            raise SpecError(
                f"the store {self.name!r} has the shape {self.family!r}, and a store of this shape "
                f"cannot have the format {self.format.name!r}. Make the spec with a function of "
                "kstore_core.stores"
            )
        _check_times(self)
        _check_serdes(self)
        _check_layers(self)

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import spec_html

        return spec_html(self)

    def with_cache(self, max_bytes: int | None = None) -> StoreSpec:
        """Return a copy of the spec with a cache, which keeps written rows in memory until a flush.

        A window store that retains duplicates cannot have a cache, as in Kafka Streams. For such a
        store, the method issues a warning and returns the spec unchanged.

        Parameters
        ----------
        max_bytes : int, optional
            The limit of this store's cache in bytes. A cache of 0 bytes caches nothing. If omitted,
            the store shares the limit ``cache_max_bytes`` of :func:`kstore_core.open_state` with
            the other stores of the state directory.
        """
        if self.retain_duplicates:
            warnings.warn(
                f"the window store {self.name!r} gets no cache, because it retains duplicates. "
                "Each put writes a new row, so a cache cannot combine writes",
                stacklevel=2,
            )
            return self
        return replace(self, cache="shared" if max_bytes is None else max_bytes)

    def with_metrics(self, sample_every: int = 64) -> StoreSpec:
        """Return a copy of the spec with metrics, which ``state.metrics`` reads.

        See docs/metrics.md.

        Parameters
        ----------
        sample_every : int
            One in ``sample_every`` lookups and puts is timed. All lookups and puts are counted.
        """
        return replace(self, metrics=sample_every)

    def with_changelog(self, topic_config: Mapping[str, str]) -> StoreSpec:
        """Return a copy of the spec with settings for the topic of the changelog.

        The settings have an effect only if :func:`kstore_core.open_state` gets the argument
        ``changelog``; see docs/restore.md.

        Parameters
        ----------
        topic_config : mapping of str to str
            The settings by their names in Kafka. They override the defaults for the shape of the
            store.
        """
        if not isinstance(topic_config, Mapping):
            raise TypeError(f"topic_config must be a mapping, not {topic_config!r}")
        return replace(self, changelog=tuple(sorted(topic_config.items())))

    @property
    def family(self) -> str:
        """The shape, with the prefix ``"time_ordered_"`` if the store is time-ordered.

        :func:`kstore_core.formats.of_shape` returns the formats that a family can have.
        """
        return family(self)

    def describe(self) -> dict[str, Any]:
        """Return the description of this spec as a dict that can be written as JSON."""
        return described(self, self.key.name, self.value.name)


def _check_order(spec: StoreSpec) -> None:
    """Raise SpecError if ``time_ordered`` or ``indexed`` is not allowed for this store."""
    for name in ("time_ordered", "indexed"):
        if type(getattr(spec, name)) is not bool:
            raise SpecError(f"{name} must be True or False, not {getattr(spec, name)!r}")
    if spec.time_ordered and spec.shape not in ("window", "session"):
        raise SpecError(
            f"time_ordered is True for the {spec.shape} store {spec.name!r}, but only window and "
            "session stores can be time-ordered. Leave out time_ordered"
        )
    if spec.indexed and not spec.time_ordered:
        raise SpecError(
            f"indexed is True for the store {spec.name!r}, which is not time-ordered, but only "
            "time-ordered stores have an index. Leave out indexed, or pass time_ordered=True"
        )


def _check_times(spec: StoreSpec) -> None:
    """Raise SpecError unless the spec has the times of its shape and no other times."""
    times = _TIMES_OF[spec.shape]
    for name in TIMES:
        if name in times:
            _check_millis(name, getattr(spec, name), least=_LEAST.get(name, 0))
        elif getattr(spec, name) is not None:
            raise SpecError(
                f"{name} was passed for the store {spec.name!r}, but a {spec.shape} store has no "
                f"{name}. Leave out {name}"
            )
    if type(spec.retain_duplicates) is not bool or (
        spec.retain_duplicates and spec.shape != "window"
    ):
        raise SpecError(
            f"retain_duplicates is {spec.retain_duplicates!r} for the {spec.shape} store "
            f"{spec.name!r}. It must be True or False, and only a window store may have True"
        )
    if spec.shape == "window" and spec.window_size_ms > spec.retention_ms:  # type: ignore[operator]
        raise SpecError(
            f"the store {spec.name!r} has retention_ms={spec.retention_ms}, which is less than "
            f"window_size_ms={spec.window_size_ms}, so a window would expire before its end. Pass "
            "a longer retention"
        )


def _check_millis(name: str, millis: int | None, *, least: int) -> None:
    if type(millis) is not int:
        raise SpecError(f"{name} must be an int (milliseconds), not {type(millis).__name__}")
    if not least <= millis < 2**63:
        raise SpecError(f"{name} is {millis}, but must be at least {least} and less than 2**63")


def _check_serdes(spec: StoreSpec) -> None:
    """Raise SpecError if a serde lacks a method or its name."""
    for role, serde in (("key", spec.key), ("value", spec.value)):
        if not callable(getattr(serde, "serialize", None)) or not callable(
            getattr(serde, "deserialize", None)
        ):
            raise SpecError(
                f"the {role} serde of the store {spec.name!r} must have the methods serialize and "
                f"deserialize, but {serde!r} lacks at least one of these methods. See "
                "kstore_core.serdes"
            )
        if not isinstance(getattr(serde, "name", None), str):
            raise SpecError(
                f"the {role} serde of the store {spec.name!r} must have an attribute `name` of "
                f"the type str, which is stored with the store, but {serde!r} does not have it"
            )


def _check_layers(spec: StoreSpec) -> None:
    """Raise SpecError if a setting of the cache, the metrics or the changelog is not valid."""
    cache, sampled = spec.cache, spec.metrics
    if not (cache is None or cache == "shared" or (type(cache) is int and 0 <= cache < 2**63)):
        raise SpecError(
            f"the cache size of the store {spec.name!r} must be a number of bytes (an int, 0 or "
            f"more), not {cache!r}"
        )
    if cache is not None and spec.retain_duplicates:
        raise SpecError(
            f"the window store {spec.name!r} retains duplicates, so it cannot have a cache. Leave "
            "out cache"
        )
    if not (sampled is None or (type(sampled) is int and 1 <= sampled < 2**31)):
        raise SpecError(
            f"sample_every of the store {spec.name!r} must be an int, 1 or more, not {sampled!r}"
        )
    for name, setting in spec.changelog:
        if not (isinstance(name, str) and isinstance(setting, str)):
            raise SpecError(
                f"the changelog of the store {spec.name!r} has the setting {name!r}={setting!r}, "
                "but the name and the value of a setting must be str"
            )
