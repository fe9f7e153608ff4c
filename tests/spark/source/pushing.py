"""A data source that takes filters with any PySpark, for loads that only one query reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.spark.source.datasource import KStoreSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kstore_core.spark.source.reader import StoreReader

__all__ = ["PushingSource"]


class PushingSource(KStoreSource):
    """``format("kstore-pushing")``: the reader of a PySpark whose scans keep their filters."""

    @classmethod
    def name(cls) -> str:
        return "kstore-pushing"

    def reader(self, schema: StructType) -> StoreReader:
        from kstore_core.spark.source.planning import only
        from kstore_core.spark.source.reader import StoreReader

        return StoreReader(only(self._planned(), schema), takes_filters=True)
