"""Processors, topologies of processors, and a driver that tests a topology without a cluster.

>>> from kstore_core import serdes, stores
>>> from kstore_core.processing import TestDriver, Topology
>>> counts = stores.key_value("counts", key=serdes.UTF8, value=serdes.INT64)
>>> def count(context, record):
...     store = context.store("counts")
...     store.put(record.key, (store.get(record.key) or 0) + 1)
...     context.forward(record.replace(value=store.get(record.key)))
>>> topology = Topology()
>>> topology = topology.add_source("in", "words", key=serdes.UTF8)
>>> topology = topology.add_processor("count", count, ["in"], stores=[counts])
>>> topology = topology.add_sink("out", "totals", ["count"], key=serdes.UTF8, value=serdes.INT64)
>>> with TestDriver(topology, start_ms=0) as driver:
...     driver.pipe_input("words", "a", b"", timestamp=5)
...     for record in driver.read_output("totals"):
...         print(record.key, record.value, record.timestamp)
a 1 5
"""

from kstore_core.processing.driver import StoreMetadata, TestDriver
from kstore_core.processing.nodes import ProcessorNode, Sink, Source
from kstore_core.processing.processor import Cancellable, Context, Processor
from kstore_core.processing.queues import Input, Output
from kstore_core.processing.record import Record
from kstore_core.processing.running import TaskContext
from kstore_core.processing.task import Task
from kstore_core.processing.topology import Subtopology, Topology

__all__ = [
    "Cancellable",
    "Context",
    "Input",
    "Output",
    "Processor",
    "ProcessorNode",
    "Record",
    "Sink",
    "Source",
    "StoreMetadata",
    "Subtopology",
    "Task",
    "TaskContext",
    "TestDriver",
    "Topology",
]
