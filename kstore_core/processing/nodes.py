"""The nodes of a topology."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from kstore_core.processing.processor import AnyProcessor, Context, Process, Processor
from kstore_core.serdes import Serde, bound

__all__ = ["Node", "ProcessorNode", "Sink", "Source", "serdes_of"]


@dataclass(frozen=True, slots=True)
class Source:
    """A node that reads topics. Attributes are the arguments of :meth:`Topology.add_source`."""

    name: str
    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """A node that processes records. `stores` are the names of its stores."""

    name: str
    processor: AnyProcessor
    parents: tuple[str, ...]
    stores: tuple[str, ...]

    def make(self, context: Context) -> tuple[Processor | None, Process]:
        """Return a processor (None for a function), and the function that processes a record."""
        given = self.processor
        if isinstance(given, Processor):
            made = deepcopy(given)
        elif isinstance(given, type):
            made = cast("type[Processor]", given)()
        else:
            return None, partial(given, context)
        return made, made.process


@dataclass(frozen=True, slots=True)
class Sink:
    """A node that writes a topic. Attributes are the arguments of :meth:`Topology.add_sink`."""

    name: str
    topic: str
    parents: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]


Node: TypeAlias = Source | ProcessorNode | Sink


def serdes_of(node: Source | Sink, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Return the serdes of the keys and of the values of a topic, bound to this topic."""
    return bound(node.key, topic, is_key=True), bound(node.value, topic, is_key=False)
