"""``format("kstore-kafka")``: topics of Kafka as DataFrames, without a connector jar.

docs/kafka-spark.md describes it. Importing this package imports neither pyspark nor pyarrow.
"""
