"""The workloads on kstore. The workloads on Kafka Streams, in ``java/``, do the same work."""
