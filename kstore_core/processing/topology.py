"""Topologies, which describe sources, processors with their stores, and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, Self

from kstore_core import serdes
from kstore_core.changelog.topic import check_topic
from kstore_core.errors import TopologyError
from kstore_core.processing.describing import described, drawn
from kstore_core.processing.nodes import Node, ProcessorNode, Sink, Source
from kstore_core.processing.processor import AnyProcessor, Processor
from kstore_core.serdes import Serde
from kstore_core.spec import StoreSpec

__all__ = ["Subtopology", "Topology"]


@dataclass(frozen=True)
class Subtopology:
    """A part of a topology. Its nodes pass records to each other or share stores.

    Each partition of a sub-topology is one task.

    Attributes
    ----------
    id : int
        The number that Kafka Streams gives to the sub-topology.
    nodes : tuple of Source, ProcessorNode or Sink
        The nodes in the order in which they were added to the topology.
    specs : tuple of StoreSpec
        The specs of its stores.
    """

    id: int
    nodes: tuple[Node, ...]
    specs: tuple[StoreSpec, ...]

    @cached_property
    def sources(self) -> dict[str, Source]:
        """The source of each topic that the sub-topology reads."""
        found = (node for node in self.nodes if isinstance(node, Source))
        return {topic: source for source in found for topic in source.topics}


class Topology:
    """A graph of sources, processors and sinks.

    A topology only describes the nodes, so it can be compared and pickled. A method that adds a
    node changes the topology and returns the topology. A parent must be added before its children,
    so a topology cannot have a cycle. A part of a topology can pass records to another part through
    a topic.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._specs: dict[str, StoreSpec] = {}

    def __repr__(self) -> str:
        return f"<Topology of {', '.join(self._nodes) or 'no nodes'}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        mine, theirs = tuple(self._nodes.values()), tuple(other._nodes.values())
        return mine == theirs and self._specs == other._specs

    __hash__ = None  # type: ignore[assignment]

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, in the order in which they were added."""
        return dict(self._nodes)

    @property
    def specs(self) -> Mapping[str, StoreSpec]:
        """The specs of the stores by name, in the order in which they were added."""
        return dict(self._specs)

    def add_source(
        self,
        name: str,
        topic: str | Iterable[str],
        *,
        key: Serde[Any] = serdes.BYTES,
        value: Serde[Any] = serdes.BYTES,
    ) -> Self:
        """Add a source, which sends the records of topics to its children.

        Parameters
        ----------
        name : str
        topic : str or iterable of str
            The names of one or several topics.
        key, value : Serde
            The serdes of the records.

        Raises
        ------
        TopologyError
            Another node has this name, another source reads a topic, or no topic is passed.
        SpecError
            Kafka does not allow the name of a topic.
        """
        topics = (topic,) if isinstance(topic, str) else tuple(topic)
        if not topics:
            raise TopologyError(f"the source {name!r} reads no topic; pass at least one topic")
        readers = {one: node for node in self._sources() for one in node.topics}
        for at, one in enumerate(topics):
            check_topic(one)
            if one in readers or one in topics[:at]:
                reader = readers[one].name if one in readers else name
                raise TopologyError(
                    f"the source {name!r} cannot read the topic {one!r}, because the source "
                    f"{reader!r} already reads it. Pass {reader!r} as a parent of the nodes that "
                    "need the topic"
                )
        return self._add(Source(name, topics, key, value))

    def add_processor(
        self,
        name: str,
        processor: AnyProcessor,
        parents: Iterable[str],
        stores: Iterable[StoreSpec] = (),
    ) -> Self:
        """Add a processor.

        Parameters
        ----------
        name : str
        processor : Processor, class or function
            A subclass of Processor, an object of such a class, or a function of the context and the
            record. If an object is passed, each task uses a copy of the object. To pickle the
            topology, define the class or the function at the top level of a module.
        parents : iterable of str
            The names of the nodes that send records to the processor.
        stores : iterable of StoreSpec
            The specs of the stores that the processor uses. Processors with equal specs share the
            store, and belong to the same sub-topology.

        Raises
        ------
        TopologyError
            Another node has this name. No parent is passed, or a parent is not in the topology, is
            a sink or is passed twice. The topology has another spec with the name of a store.
        TypeError
            The processor or a spec has another type, or ``parents`` is a str.
        """
        _check_processor(name, processor)
        specs = tuple(stores)
        for spec in specs:
            if not isinstance(spec, StoreSpec):
                raise TypeError(
                    f"the stores of {name!r} must be specs of kstore_core.stores, not {spec!r}"
                )
            known = self._specs.get(spec.name, spec)
            if known != spec:
                raise TopologyError(
                    f"the processor {name!r} cannot use the store {spec.name!r} with {spec}, "
                    f"because the topology has a store of this name with {known}. Pass the same "
                    "spec to share the store, or give the store another name"
                )
        names = tuple(dict.fromkeys(spec.name for spec in specs))
        self._add(ProcessorNode(name, processor, self._parents(name, parents), names))
        self._specs.update((spec.name, spec) for spec in specs)
        return self

    def add_sink(
        self,
        name: str,
        topic: str,
        parents: Iterable[str],
        *,
        key: Serde[Any] = serdes.BYTES,
        value: Serde[Any] = serdes.BYTES,
    ) -> Self:
        """Add a sink, which writes the records of its parents to a topic.

        Parameters
        ----------
        name : str
        topic : str
        parents : iterable of str
            The names of the sources and processors whose records are written.
        key, value : Serde
            The serdes of the records.

        Raises
        ------
        TopologyError
            Another node has this name. No parent is passed, or a parent is not in the topology, is
            a sink or is passed twice.
        SpecError
            Kafka does not allow the name of the topic.
        """
        return self._add(Sink(name, check_topic(topic), self._parents(name, parents), key, value))

    def _add(self, node: Node) -> Self:
        if not isinstance(node.name, str) or not node.name:
            raise TopologyError(f"the name of a node must be a non-empty str, not {node.name!r}")
        if node.name in self._nodes:
            raise TopologyError(
                f"the topology already has a node {node.name!r}; give the new node another name"
            )
        self._nodes[node.name] = node
        return self

    def _parents(self, name: str, parents: Iterable[str]) -> tuple[str, ...]:
        if isinstance(parents, str):
            raise TypeError(f"the parents of {name!r} must be a list of names; pass [{parents!r}]")
        given = tuple(parents)
        if not given:
            raise TopologyError(
                f"the node {name!r} has no parents, so it would get no records. Pass the names of "
                "the nodes whose records it gets"
            )
        for at, parent in enumerate(given):
            if parent not in self._nodes:
                known = ", ".join(map(repr, self._nodes)) or "none"
                raise TopologyError(
                    f"the node {name!r} has the parent {parent!r}, which is not in the topology "
                    f"(known nodes: {known}). Add a parent before its children. A part of the "
                    "topology can return records to an earlier part through a topic"
                )
            if isinstance(self._nodes[parent], Sink):
                raise TopologyError(
                    f"the node {name!r} has the parent {parent!r}, which is a sink. Pass the "
                    "parents of the sink, or add a source that reads the topic of the sink"
                )
            if parent in given[:at]:
                raise TopologyError(
                    f"the node {name!r} has the parent {parent!r} twice, so it would get each "
                    "record twice; pass the name once"
                )
        return given

    def _sources(self) -> Iterator[Source]:
        return (node for node in self._nodes.values() if isinstance(node, Source))

    @property
    def subtopologies(self) -> tuple[Subtopology, ...]:
        """The sub-topologies in the order of their numbers.

        Two nodes are in the same sub-topology if one is a parent of the other, or if they share a
        store.
        """
        group = {name: {name} for name in self._nodes}
        user_of: dict[str, str] = {}
        for node in self._nodes.values():
            stores = node.stores if isinstance(node, ProcessorNode) else ()
            for other in (*node.parents, *(user_of.setdefault(one, node.name) for one in stores)):
                if group[other] is not group[node.name]:
                    group[node.name] |= group[other]
                    for member in group[other]:
                        group[member] = group[node.name]
        distinct = list({id(found): found for found in group.values()}.values())
        return tuple(self._part(number, members) for number, members in enumerate(distinct))

    def whole(self) -> Subtopology:
        """Return all nodes as one part, which one task can run, as in Kafka's test driver."""
        return self._part(0, self._nodes)

    def _part(self, number: int, members: Iterable[str]) -> Subtopology:
        nodes = tuple(self._nodes[name] for name in self._nodes if name in members)
        used = {one for node in nodes if isinstance(node, ProcessorNode) for one in node.stores}
        specs = tuple(spec for name, spec in self._specs.items() if name in used)
        return Subtopology(number, nodes, specs)

    def describe(self) -> str:
        """Return the text that ``Topology.describe()`` of Kafka Streams returns."""
        parts = (part.nodes for part in self.subtopologies)
        return "Topologies:\n " + "".join(
            f"  Sub-topology: {number}\n{described(nodes)}\n" for number, nodes in enumerate(parts)
        )

    def mermaid(self) -> str:
        """Return a picture of the topology in the language of Mermaid."""
        return drawn(part.nodes for part in self.subtopologies)


def _check_processor(name: str, processor: object) -> None:
    """Raise TypeError unless an argument is a processor."""
    if isinstance(processor, type):
        is_processor = issubclass(processor, Processor)
    else:
        is_processor = isinstance(processor, Processor) or callable(processor)
        if is_processor and not isinstance(processor, Processor):
            with suppress(ValueError):  # a builtin may have no signature
                try:
                    signature(processor).bind(None, None)  # type: ignore[arg-type]
                except TypeError:
                    is_processor = False
    if not is_processor:
        raise TypeError(
            f"the processor {name!r} must be a subclass of Processor, an object of such a class, "
            f"or a function of the context and the record, not {processor!r}. In place of a "
            "supplier, pass the class, or an object, which each task copies"
        )
