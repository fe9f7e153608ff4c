"""Changelogs in files: directories of log segments in Kafka's own format."""
