"""Changelogs in files. A changelog is a directory of log segments in Kafka's format."""
