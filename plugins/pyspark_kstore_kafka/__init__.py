"""Makes ``format("kstore-kafka")`` known to Spark, which imports what is called ``pyspark_*``."""

try:
    from kstore_core.spark.kafka_source.datasource import KafkaSource as DefaultSource
except ImportError:  # without PySpark there is nobody to make it known to
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
