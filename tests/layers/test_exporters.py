"""The exporters, each with the real library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.exporters import series_of
from kstore_core.metrics import CATALOGUE, Metric, MetricsRegistry


@pytest.fixture
def registry(tmp_path: Any) -> Iterator[MetricsRegistry]:
    """Of a directory with two stores, of which one is cached."""
    registry = MetricsRegistry()
    with open_state(tmp_path / "0_0", engine="memory", metrics=registry) as state:
        headers = [("secret-header", b"secret-header-value")]
        one = state.open(
            stores.timestamped_key_value_with_headers("one").with_metrics(1).with_cache()
        )
        two = state.open(stores.window("two", 1000, 10).with_metrics(1))
        for number in range(3):
            one.put(b"secret-key", b"secret-value", timestamp=number, headers=headers)
        one.get(b"secret-key")
        two.put(b"secret-key", b"secret-value", window_start=1)
        yield registry


LABELS = {
    "scope": "in-memory",
    "state_id": "one",
    "task_id": "0_0",
    "thread_id": "MainThread",
}


def test_prometheus(registry: MetricsRegistry, tmp_path: Any) -> None:
    client = pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    from kstore_core.exporters.prometheus import PrometheusCollector

    prometheus = client.CollectorRegistry()
    prometheus.register(PrometheusCollector(registry))
    text = client.generate_latest(prometheus).decode()
    assert "secret" not in text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name for name, family in families.items() if family.type == "counter"} == {
        "kstore_" + name.removesuffix("-total").replace("-", "_")
        for name in {metric.name for metric in registry.collect()}
        if CATALOGUE[name].counter
    }
    state_dir = str(tmp_path / "0_0")
    value = prometheus.get_sample_value
    assert value("kstore_put_total", {**LABELS, "state_dir": state_dir}) == 3
    window = {**LABELS, "scope": "in-memory-window", "state_id": "two", "state_dir": state_dir}
    assert value("kstore_put_total", window) == 1
    assert value("kstore_put_latency_avg", window) > 0
    assert "mean time of a put (ns)" in families["kstore_put_latency_avg"].documentation
    cache = {"thread_id": "MainThread", "task_id": "0_0", "state_dir": state_dir}
    assert value("kstore_hit_ratio_avg", {**cache, "record_cache_id": "one"}) == 1
    assert value("kstore_uncommitted_bytes", cache) > 0
    assert value("kstore_cache_size_bytes_total", cache) > 0


def test_opentelemetry(registry: MetricsRegistry, tmp_path: Any) -> None:
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from kstore_core.exporters.opentelemetry import export_to_opentelemetry

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    export_to_opentelemetry(provider, registry)
    data = reader.get_metrics_data()
    assert data is not None
    assert "secret" not in data.to_json()
    (scope,) = data.resource_metrics[0].scope_metrics
    assert scope.scope.name == "kstore"
    found = {metric.name: metric for metric in scope.metrics}
    assert found.keys() == {f"kstore.{metric.name}" for metric in registry.collect()}
    points = {
        point.attributes["state-id"]: point.value
        for point in found["kstore.put-total"].data.data_points
    }
    assert points == {"one": 3, "two": 1}
    assert found["kstore.put-total"].data.is_monotonic
    assert found["kstore.put-latency-avg"].unit == "ns"
    (point,) = found["kstore.uncommitted-bytes"].data.data_points
    assert dict(point.attributes) == {
        "thread-id": "MainThread",
        "task-id": "0_0",
        "state-dir": str(tmp_path / "0_0"),
    }
    provider.shutdown()


def test_a_directory_that_is_open_twice_is_one_series() -> None:
    tags = {"task-id": "0_0", "rocksdb-window-state-id": "s"}
    metrics = [Metric(name, tags, value) for name in ("put-total", "put-rate") for value in (2, 3)]
    labels = (("scope", "rocksdb-window"), ("state-id", "s"), ("task-id", "0_0"))
    assert series_of(metrics) == {"put-total": {labels: 5}, "put-rate": {labels: 3}}
