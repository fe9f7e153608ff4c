"""The check of the topics that a topology reads and writes."""

from __future__ import annotations

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.kafka.topics import topics
from kstore_core.errors import StateError, TopologyError
from kstore_core.processing.nodes import Sink
from kstore_core.processing.topology import Topology

__all__ = ["task_counts"]


def task_counts(topology: Topology, cluster: Cluster) -> dict[int, int]:
    """Return the number of tasks of each sub-topology that reads topics, by sub-topology number.

    Raises
    ------
    StateError
        A topic does not exist.
    TopologyError
        The topics of a sub-topology have different numbers of partitions.
    EngineError
        The brokers cannot be reached, or reject the request.
    """
    consumer = cluster.consumer()
    try:
        known = topics(cluster, consumer)
    finally:
        cluster.close(consumer)
    written = {node.topic for node in topology.nodes.values() if isinstance(node, Sink)}
    read = {topic for part in topology.subtopologies for topic in part.sources}
    missing = sorted((written | read) - known.keys())
    if missing:
        raise StateError(
            f"there is no topic {missing[0]} at {cluster.servers}, but the topology "
            f"{'reads' if missing[0] in read else 'writes'} it. Create the topic, or correct its "
            "name"
        )
    counts = {}
    for part in topology.subtopologies:
        found = {topic: known[topic] for topic in part.sources}
        if len(set(found.values())) > 1:
            listed = ", ".join(f"{topic}: {count}" for topic, count in sorted(found.items()))
            raise TopologyError(
                f"the topics of sub-topology {part.id} have different numbers of partitions "
                f"({listed}), so records of one key would be in different tasks. Give the topics "
                "equal numbers of partitions, or copy one topic to a new one with the right number"
            )
        if found:
            counts[part.id] = next(iter(found.values()))
    return counts
