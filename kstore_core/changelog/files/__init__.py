"""The changelogs in files. Each is a directory of log segments in Kafka's format."""
