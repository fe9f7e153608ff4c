"""The package in which PySpark finds ``format("kstore-kafka")``; see ``pyspark_kstore``."""

import contextlib

__all__ = ["DefaultSource"]

with contextlib.suppress(ImportError):  # not needed without PySpark
    try:
        from kstore_core.spark.kafka.datasource import KafkaSource as DefaultSource
    except Exception as error:  # noqa: BLE001 - no error may hide other sources
        from pyspark_kstore import failing_source

        remedy = "pip install '.[spark,kafka]'"
        DefaultSource = failing_source("kstore-kafka", remedy, error)  # type: ignore[misc,assignment]
