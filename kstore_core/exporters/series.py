"""The series of all exporters: one set of label names per metric, and each series once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstore_core.metrics import CATALOGUE, Metric

__all__ = ["Series", "series_of"]

Series = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""The values by metric name and labels."""

_SCOPED = "-state-id"


def series_of(metrics: Iterable[Metric]) -> Series:
    """Return metrics by name and labels.

    Kafka's tag ``<scope>-state-id`` becomes two labels, ``scope`` and ``state-id``, so that all
    stores have the same label names. The counts of a directory that is open twice are added.
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
