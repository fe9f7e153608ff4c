"""The changelogs in Kafka topics, which use the library confluent-kafka."""
