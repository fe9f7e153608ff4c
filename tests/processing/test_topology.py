"""What a topology refuses, how it is divided, and how it is shown."""

import pickle

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import KStoreError, SpecError, TopologyError
from kstore_core.processing import Processor, Topology

COUNTS = stores.key_value("counts", key=serdes.UTF8, value=serdes.INT64)


def ignore(context, record):
    pass


class Ignoring(Processor):
    def process(self, record):
        pass


def chain():
    topology = Topology().add_source("in", ["a", "b"]).add_processor("p", Ignoring, ["in"])
    return topology.add_sink("out", "c", ["p"])


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda t: t.add_source("p", "x"), "already has a node 'p'; give the new node another"),
        (lambda t: t.add_source("", "x"), "must be a non-empty str"),
        (lambda t: t.add_source("s", []), "pass at least one topic"),
        (lambda t: t.add_source("s", "b"), "source 'in' already reads it. Pass 'in' as a parent"),
        (lambda t: t.add_source("s", ["x", "x"]), "source 's' already reads it"),
        (lambda t: t.add_processor("q", ignore, []), "has no parents, so it would get no records"),
        (lambda t: t.add_processor("q", ignore, ["q"]), "Add a parent before its children"),
        (lambda t: t.add_processor("q", ignore, ["?"]), "(known nodes: 'in', 'p', 'out')"),
        (lambda t: t.add_processor("q", ignore, ["out"]), "which is a sink. Pass the parents"),
        (lambda t: t.add_processor("q", ignore, ["p", "p"]), "twice"),
        (lambda t: t.add_sink("q", "d", []), "has no parents"),
        (lambda t: t.add_sink("q", "d", ["?"]), "which is not in the topology"),
    ],
)
def test_bad_nodes_are_refused_with_the_remedy(add, said):
    topology = chain()
    with pytest.raises(TopologyError) as error:
        add(topology)
    assert said in str(error.value)
    assert isinstance(error.value, KStoreError)
    assert isinstance(error.value, ValueError)
    assert topology == chain()


def test_arguments_of_another_type_are_refused():
    topology = chain()
    with pytest.raises(TypeError, match=r"pass \['in'\]"):
        topology.add_processor("q", ignore, "in")
    with pytest.raises(TypeError, match="must be a subclass of Processor"):
        topology.add_processor("q", 7, ["in"])
    with pytest.raises(TypeError, match="must be a subclass of Processor"):
        topology.add_processor("q", int, ["in"])
    with pytest.raises(TypeError, match="In place of a supplier, pass the class"):
        topology.add_processor("q", lambda: Ignoring(), ["in"])
    with pytest.raises(TypeError, match=r"must be specs of kstore_core\.stores"):
        topology.add_processor("q", ignore, ["in"], stores=["counts"])
    with pytest.raises(SpecError, match="cannot be the name of a topic"):
        topology.add_sink("q", "not a topic", ["in"])
    assert topology == chain()


def test_two_specs_cannot_have_the_same_name():
    topology = chain().add_processor("q", ignore, ["in"], stores=[COUNTS])
    with pytest.raises(TopologyError, match="Pass the same spec to share the store"):
        topology.add_processor("r", ignore, ["in"], stores=[stores.key_value("counts")])
    assert "r" not in topology.nodes
    assert topology.specs == {"counts": COUNTS}


def parts():
    """Two sub-topologies that a store unites, and a third that reads what they write."""
    topology = Topology().add_source("s1", "a").add_source("s2", "b").add_source("s3", "c")
    topology.add_processor("p1", ignore, ["s1"], stores=[COUNTS])
    topology.add_processor("p3", ignore, ["s3"])
    topology.add_processor("p2", ignore, ["s2"], stores=[COUNTS])
    return topology.add_sink("k", "c", ["p1"])


def test_subtopologies_are_numbered_and_have_their_stores():
    first, second = parts().subtopologies
    assert [node.name for node in first.nodes] == ["s1", "s2", "p1", "p2", "k"]
    assert (first.id, first.specs, list(first.sources)) == (0, (COUNTS,), ["a", "b"])
    assert [node.name for node in second.nodes] == ["s3", "p3"]
    assert (second.id, second.specs, list(second.sources)) == (1, (), ["c"])
    whole = parts().whole()
    assert (len(whole.nodes), whole.specs, list(whole.sources)) == (7, (COUNTS,), ["a", "b", "c"])


def test_a_topology_is_a_value():
    topology = parts()
    assert topology == parts()
    assert pickle.loads(pickle.dumps(topology)) == topology
    assert topology != parts().add_sink("other", "d", ["p1"])
    assert topology != "a topology"
    assert repr(chain()) == "<Topology of in, p, out>"
    assert repr(Topology()) == "<Topology of no nodes>"
    with pytest.raises(TypeError, match="unhashable"):
        hash(topology)


def test_the_picture_has_each_node_topic_and_store():
    assert parts().mermaid() == (
        """\
flowchart TD
  subgraph s0["Sub-topology 0"]
    n0("s1")
    n2("s2")
    n4("p1")
    n6("p2")
    n7("k")
    n5[("counts")]
  end
  subgraph s1["Sub-topology 1"]
    n9("s3")
    n10("p3")
  end
  n1>"a"] --> n0
  n3>"b"] --> n2
  n0 --> n4
  n4 --- n5
  n2 --> n6
  n6 --- n5
  n4 --> n7
  n7 --> n8>"c"]
  n8>"c"] --> n9
  n9 --> n10
"""
    )
