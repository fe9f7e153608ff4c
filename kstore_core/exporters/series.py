"""Metrics as every exporter has them: the same labels for the same name, each series once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstore_core.metrics import CATALOGUE, Metric

__all__ = ["Series", "series_of"]

Series = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""By the metric's name and by its labels, its value."""

_SCOPED = "-state-id"


def series_of(metrics: Iterable[Metric]) -> Series:
    """Metrics by name and labels.

    Kafka's tag ``<scope>-state-id`` becomes two labels, ``scope`` and ``state-id``, for labels have
    to be the same for all stores. Where a directory is open twice, what it counts is added up.
    """
    series: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for name, tags, value in metrics:
        values = series.setdefault(name, {})
        labels = tuple(sorted(label for tag in tags.items() for label in _labels(*tag)))
        if labels not in values:
            values[labels] = value
        elif CATALOGUE[name].counter:
            values[labels] += value
        else:
            values[labels] = max(values[labels], value)
    return series


def _labels(tag: str, value: str) -> Iterable[tuple[str, str]]:
    if not tag.endswith(_SCOPED):
        return [(tag, value)]
    return [("scope", tag.removesuffix(_SCOPED)), ("state-id", value)]
