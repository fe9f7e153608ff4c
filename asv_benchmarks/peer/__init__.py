"""The same work on Kafka Streams and on kstore, in one run: ``python -m asv_benchmarks.peer``."""
