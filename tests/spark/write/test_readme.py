"""The README's pipeline runs as it stands, but for where its store is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core import serdes, stores
from kstore_core.arrow import headers_type
from tests.support.page_runs import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


def test_the_pipeline_of_the_readme_runs(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa

    changelog = pa.table(
        {
            "key": pa.array([b"CHF", b"CHF"]),
            "value": pa.array([serdes.FLOAT64.encode(rate) for rate in (1.2010, 1.0280)]),
            "timestamp": pa.array([1_421_247_600_000, 1_421_334_000_000]),
            "headers": pa.array([[{"key": "source", "value": b"ECB"}]] * 2, headers_type()),
        }
    )
    times = [1_421_300_000_000, 1_421_400_000_000]
    payments = pa.table({"currency": ["CHF"] * 2, "time": times})
    names: dict[str, Any] = {
        "spark": spark,
        "changelog": spark.createDataFrame(changelog),
        "payments": spark.createDataFrame(payments),
        "rates": stores.versioned_key_value_with_headers(
            "rates", history_retention_ms=DAY_MS, key=serdes.UTF8, value=serdes.FLOAT64
        ),
    }
    (text,) = (text for language, text in blocks("README.md") if language == "py")
    exec(compile(text.replace("/data/rates", str(tmp_path / "rates")), "README.md", "exec"), names)
    assert [row.value for row in names["then"].collect()] == [1.201]
    found = [(row.time, row.table_value) for row in names["joined"].collect()]
    assert sorted(found) == list(zip(times, (1.201, 1.028), strict=True))
