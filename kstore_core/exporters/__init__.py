"""Exporters of :mod:`kstore_core.metrics`: Prometheus (extra ``prometheus``) and OpenTelemetry
(extra ``otel``). Each module imports its own dependencies."""

from __future__ import annotations

from kstore_core.exporters.series import Series, series_of

__all__ = ["Series", "series_of"]
