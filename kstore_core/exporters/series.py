"""The conversion of metrics to series, which all exporters use.

All series of a metric have the same label names, and no two series have the same labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstore_core.metrics import CATALOGUE, Metric

__all__ = ["Series", "series_of"]

Series = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""The values of metrics, by the name of the metric and then by the labels of the series."""

_SCOPED = "-state-id"


def series_of(metrics: Iterable[Metric]) -> Series:
    """Return the values of metrics by their names and labels.

    The tag ``<scope>-state-id`` of Kafka Streams becomes the two labels ``scope`` and ``state-id``,
    so that all stores have the same label names. If a directory is open twice, several values have
    the same name and labels. For such values, the result has the sum for a counter, and the
    greatest value for a gauge.
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
