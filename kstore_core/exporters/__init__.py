"""The exporters of :mod:`kstore_core.metrics` to Prometheus and OpenTelemetry.

Prometheus needs the extra ``prometheus``, and OpenTelemetry needs the extra ``otel``.
"""

from __future__ import annotations

from kstore_core.exporters.series import Series, series_of

__all__ = ["Series", "series_of"]
