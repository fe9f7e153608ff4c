"""The description that users make and pass around."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kstore_core import serdes
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat
from kstore_core.serdes import Serde
from kstore_core.spec.checks import check_layers, check_order, check_serdes, check_times
from kstore_core.spec.describing import Shape, described, family
from kstore_core.spec.names import check_name

__all__ = ["StoreSpec"]


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store's description. Make one with the factories of :mod:`kstore_core.stores`.

    Attributes
    ----------
    name : str
        Kafka's rule: 1 to 249 of ``A-Za-z0-9._-``, neither ``.`` nor ``..``.
    shape : {"key_value", "versioned", "window", "session"}
    format : ValueFormat
    key, value : Serde
    history_retention_ms : int or None
        Versioned stores: how long old versions are kept, and how late a record may come.
    segment_interval_ms : int or None
        All but key-value stores: width of a segment, at least 1.
    retention_ms : int or None
        Window and session stores: how long a window, by its start, or a session, by its end, can be
        read after stream time has passed it.
    window_size_ms : int or None
        Window stores: how long a window is; it is not stored with the rows.
    retain_duplicates : bool
        Window stores: whether a key and window may have many values.
    time_ordered : bool
        Window and session stores: whether rows lie by time first, by key second.
    indexed : bool
        Time-ordered stores: whether an index finds the rows of a key.
    cache : int, "shared" or None
        What :meth:`with_cache` says; not kept with the data.
    metrics : int or None
        What :meth:`with_metrics` says; not kept with the data.
    changelog : tuple of (str, str)
        What :meth:`with_changelog` says; not kept with the data.

    Raises
    ------
    SpecError
        A bad name or serde, a shape and a format that do not go together, times out of range.
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
            raise SpecError(f"{self.format!r} is no ValueFormat of kstore_core.formats")
        check_order(self)
        if self.family not in self.format.shapes:
            raise SpecError(
                f"the store {self.name!r} has the shape {self.family!r} and the format "
                f"{self.format.name!r}, which do not go together; see kstore_core.stores"
            )
        check_times(self)
        check_serdes(self)
        check_layers(self)

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import spec_html

        return spec_html(self)

    def with_cache(self, max_bytes: int | None = None) -> StoreSpec:
        """The same store behind a cache, which keeps rows in memory until they are flushed.

        A window store that retains duplicates gets none, with a warning, as in Kafka Streams.

        Parameters
        ----------
        max_bytes : int, optional
            What the cache of this store may hold; 0 keeps nothing. Left out, the store shares
            ``cache_max_bytes`` of :func:`kstore_core.open_state` with the others that do.
        """
        if self.retain_duplicates:
            warnings.warn(
                f"the window store {self.name!r} retains duplicates, which are never written "
                "twice, so it is not cached",
                stacklevel=2,
            )
            return self
        return replace(self, cache="shared" if max_bytes is None else max_bytes)

    def with_metrics(self, sample_every: int = 64) -> StoreSpec:
        """The same store with metrics, which ``state.metrics`` reads; see docs/metrics.md.

        Parameters
        ----------
        sample_every : int
            The latency of one in so many lookups and puts is measured; they are all counted.
        """
        return replace(self, metrics=sample_every)

    def with_changelog(self, topic_config: Mapping[str, str]) -> StoreSpec:
        """The same store with settings for its changelog's topic; see docs/restore.md.

        Whether it has a changelog is said by :func:`kstore_core.open_state`.

        Parameters
        ----------
        topic_config : mapping of str to str
            By Kafka's names. They win over those that the store's shape makes.
        """
        if not isinstance(topic_config, Mapping):
            raise TypeError(f"settings of a topic are a mapping, not {topic_config!r}")
        return replace(self, changelog=tuple(sorted(topic_config.items())))

    @property
    def family(self) -> str:
        """The shape, with ``"time_ordered_"`` before it where the store is: it tells which formats
        there are (:func:`kstore_core.formats.of_shape`)."""
        return family(self)

    def describe(self) -> dict[str, Any]:
        """What is kept in the state directory, as JSON types."""
        return described(self, self.key.name, self.value.name)
