"""``format("kstore-kafka")``: a data source for Kafka topics that needs no connector jar.

docs/kafka-spark.md describes the data source. Importing this package imports neither pyspark nor
pyarrow.
"""
