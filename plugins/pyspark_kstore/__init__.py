"""The package in which PySpark finds ``format("kstore")``.

PySpark imports every package ``pyspark_*`` for any Python data source, so this import never fails.
If kstore cannot be imported, a use of the source raises an ImportError.
"""

import contextlib

__all__ = ["DefaultSource", "failing_source"]


def failing_source(format_name: str, remedy: str, reason: Exception) -> type:
    """Make a source that raises the error of kstore's import; an ImportError without PySpark."""
    from pyspark.sql.datasource import DataSource

    text = f"{type(reason).__name__}: {reason}"

    class FailingSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(
                f"kstore cannot be imported by Spark's Python ({text}); "
                f"install it there, from a clone: {remedy}"
            )

    return FailingSource


with contextlib.suppress(ImportError):  # not needed without PySpark
    try:
        from kstore_core.spark.source.datasource import KStoreSource as DefaultSource
    except Exception as error:  # noqa: BLE001 - no error may hide other sources
        remedy = "pip install '.[spark,rocksdb]'"
        DefaultSource = failing_source("kstore", remedy, error)  # type: ignore[misc,assignment]
