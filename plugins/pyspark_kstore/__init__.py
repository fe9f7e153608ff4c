"""The package in which PySpark finds the data source ``format("kstore")``.

PySpark imports every package ``pyspark_*`` before it uses any Python data source. If the import of
this package failed, no Python data source would work. So this package can always be imported. If
kstore itself cannot be imported, only a use of ``format("kstore")`` raises ImportError.
"""

import contextlib

__all__ = ["DefaultSource", "failing_source"]


def failing_source(format_name: str, remedy: str, reason: Exception) -> type:
    """Return a data source that raises ImportError when it is used.

    Parameters
    ----------
    format_name : str
        The name of the data source, for example ``"kstore"``.
    remedy : str
        The command that installs kstore with the needed extras.
    reason : Exception
        The error that the import of kstore raised.

    Raises
    ------
    ImportError
        PySpark is not installed.
    """
    from pyspark.sql.datasource import DataSource

    text = f"{type(reason).__name__}: {reason}"

    class FailingSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(
                f"Spark's Python cannot import kstore ({text}). "
                f"Install kstore for this Python from a clone: {remedy}"
            )

    return FailingSource


with contextlib.suppress(ImportError):  # without PySpark nobody needs the data source
    try:
        from kstore_core.spark.source.datasource import KStoreSource as DefaultSource
    except Exception as error:  # noqa: BLE001 - an error must not hide other data sources
        remedy = "pip install '.[spark,rocksdb]'"
        DefaultSource = failing_source("kstore", remedy, error)  # type: ignore[misc,assignment]
