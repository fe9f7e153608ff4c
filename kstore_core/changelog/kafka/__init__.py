"""A changelog in a topic of Kafka, through confluent-kafka."""
