"""The package in which PySpark finds the data source ``format("kstore-kafka")``.

The docstring of ``pyspark_kstore`` explains why the import of such a package must never fail.
"""

import contextlib

__all__ = ["DefaultSource"]

with contextlib.suppress(ImportError):  # without PySpark nobody needs the data source
    try:
        from kstore_core.spark.kafka.datasource import KafkaSource as DefaultSource
    except Exception as error:  # noqa: BLE001 - an error must not hide other data sources
        from pyspark_kstore import failing_source

        remedy = "pip install '.[spark,kafka]'"
        DefaultSource = failing_source("kstore-kafka", remedy, error)  # type: ignore[misc,assignment]
