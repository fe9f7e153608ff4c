"""The runner of topologies on Kafka. It needs confluent-kafka.

>>> from kstore_core.processing.kafka import KafkaRunner
"""

from kstore_core.processing.kafka.runner import KafkaRunner

__all__ = ["KafkaRunner"]
