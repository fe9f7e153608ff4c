"""Changelogs in Kafka topics, through the library confluent-kafka."""
