"""Record batches, version 2: the form in which Kafka stores and sends records."""
