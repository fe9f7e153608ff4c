"""The package in which PySpark finds ``format("kstore-kafka")``; see ``pyspark_kstore``."""

import contextlib

__all__ = ["DefaultSource"]

with contextlib.suppress(ImportError):  # not needed without PySpark
    from pyspark.sql.datasource import DataSource

    try:
        from kstore_core.spark.kafka.datasource import KafkaSource as DefaultSource
    except Exception as error:  # noqa: BLE001 - no error may hide other sources
        _reason = f"{type(error).__name__}: {error}"

        class DefaultSource(DataSource):  # type: ignore[no-redef]
            """A source that raises the error of kstore's import."""

            @classmethod
            def name(cls) -> str:
                """The name for ``format()``."""
                return "kstore-kafka"

            def __init__(self, options: dict[str, str]) -> None:
                raise ImportError(
                    f"kstore cannot be imported by Spark's Python ({_reason}); "
                    "install it there, from a clone: pip install '.[spark,kafka]'"
                )
