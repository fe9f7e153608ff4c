"""The data source ``kstore-kafka``, which reads and writes topics without a connector jar.

docs/kafka-spark.md describes the data source. The import of this package imports neither pyspark
nor pyarrow.
"""
