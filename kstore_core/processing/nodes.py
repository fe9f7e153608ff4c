"""The nodes of a topology."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstore_core.processing.processor import Process, Processor
from kstore_core.serdes import Serde

__all__ = ["Node", "ProcessorNode", "Sink", "Source"]


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
    processor: Process
    parents: tuple[str, ...]
    stores: tuple[str, ...]

    def make(self) -> Processor | None:
        """Return a processor for one task, or None if the processor is a function."""
        if isinstance(self.processor, type):
            return self.processor()
        if not isinstance(self.processor, Processor):
            return None
        return deepcopy(self.processor)


@dataclass(frozen=True, slots=True)
class Sink:
    """A node that writes a topic. Attributes are the arguments of :meth:`Topology.add_sink`."""

    name: str
    topic: str
    parents: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]


Node: TypeAlias = Source | ProcessorNode | Sink
