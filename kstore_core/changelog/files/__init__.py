"""A changelog in files: Kafka's own log segments in a directory."""
