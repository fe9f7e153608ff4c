"""The changelogs in files. Each changelog is a directory of log segments in Kafka's format."""
