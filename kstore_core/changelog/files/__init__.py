"""The changelogs in files, which are directories of log segments in Kafka's own format."""
