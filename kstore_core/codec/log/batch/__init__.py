"""Record batches of version 2, the format in which Kafka stores and sends records."""
