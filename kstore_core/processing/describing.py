"""The description of a topology as the text of Kafka Streams, and as a flowchart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstore_core.processing.java_order import InsertedTree, hash_order, text_order
from kstore_core.processing.nodes import Node, ProcessorNode, Sink, Source

__all__ = ["described", "drawn"]


class _Described:
    """A node with its neighbours in the order of Kafka Streams, and the size of its subtree."""

    def __init__(self, node: Node) -> None:
        self.name = node.name
        self.size = 1
        self.before = InsertedTree[_Described](_Described.is_before)
        self.after = InsertedTree[_Described](_Described.is_before)

    def is_before(self, other: _Described) -> bool:
        return self.rank() < other.rank()

    def rank(self) -> tuple[int, bytes]:
        return -self.size, text_order(self.name)

    def grow(self, size: int) -> None:
        self.size += size
        for node in self.before:
            node.grow(size)


def described(nodes: Sequence[Node]) -> str:
    """Return the text that describes a sub-topology."""
    known = {node.name: node for node in nodes}
    made = {node.name: _Described(node) for node in nodes}
    for name in hash_order(known):
        for parent in known[name].parents:
            made[name].before.add(made[parent])
            made[parent].after.add(made[name])
            made[parent].grow(made[name].size)
    ordered = sorted(made.values(), key=_Described.rank)
    return "".join(_lines(known[found.name], found) for found in ordered)


def _lines(node: Node, found: _Described) -> str:
    if isinstance(node, Source):
        text = f"Source: {node.name} (topics: {_listed(node.topics)})"
    elif isinstance(node, ProcessorNode):
        text = f"Processor: {node.name} (stores: {_listed(node.stores)})"
    else:
        text = f"Sink: {node.name} (topic: {node.topic})"
    if not isinstance(node, Sink):
        text += f"\n      --> {_names(found.after)}"
    if not isinstance(node, Source):
        text += f"\n      <-- {_names(found.before)}"
    return f"    {text}\n"


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(hash_order(names, copied=True))}]"


def _names(nodes: Iterable[_Described]) -> str:
    return ", ".join(node.name for node in nodes) or "none"


def drawn(parts: Iterable[Sequence[Node]]) -> str:
    """Return a Mermaid flowchart with a frame for each sub-topology."""
    lines, links, ids = ["flowchart TD"], [], dict[str, str]()

    def shape(name: str, opening: str, closing: str) -> str:
        number = ids.setdefault(opening + name, f"n{len(ids)}")
        return f'{number}{opening}"{name.replace(chr(34), "#quot;")}"{closing}'

    for number, nodes in enumerate(parts):
        lines.append(f'  subgraph s{number}["Sub-topology {number}"]')
        stores = {}
        for node in nodes:
            lines.append(f"    {shape(node.name, '(', ')')}")
            own = ids["(" + node.name]
            links += [f"  {ids['(' + parent]} --> {own}" for parent in node.parents]
            if isinstance(node, Source):
                links += [f"  {shape(topic, '>', ']')} --> {own}" for topic in node.topics]
            elif isinstance(node, Sink):
                links.append(f"  {own} --> {shape(node.topic, '>', ']')}")
            else:
                for store in node.stores:
                    stores[store] = shape(store, "[(", ")]")
                    links.append(f"  {own} --- {ids['[(' + store]}")
        lines += [f"    {store}" for store in stores.values()] + ["  end"]
    return "\n".join([*lines, *links, ""])
