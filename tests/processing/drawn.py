"""Random programs: topologies of random processors, and their inputs, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["draw", "draw_nodes"]

KEYS = [f"k{number}" for number in range(5)]
HEADERS = ["trace", "source", "schema", "ünïcode"]
RETENTIONS = (200, 1000, 100_000)


def draw(seed: int) -> dict[str, Any]:
    """A program that Kafka's test driver can run to its end."""
    random = Random(seed)
    stores = [_store(random, number) for number in range(random.randint(1, 5))]
    nodes, linked = _nodes(random, stores)
    topics = [topic for node in nodes for topic in node.get("topics", ())]
    outer = [topic for topic in topics if topic not in linked] or topics
    end = random.choice([300, 2000, 5000])
    return {
        "start_ms": random.choice([0, 1000, 1_000_003]),
        "stores": stores,
        "nodes": nodes,
        "keys": KEYS,
        "times": [end * part // 6 for part in range(8)],
        "inputs": [_input(random, outer, end) for _ in range(random.randint(15, 45))],
    }


def _store(random: Random, number: int) -> dict[str, Any]:
    kind = random.choice(
        ["kv_plain", "kv_timestamped", "kv_headers", "kv_headers", "versioned", "window_plain",
         "window_timestamped", "window_headers", "session_plain", "session_headers"]
    )  # fmt: skip
    store: dict[str, Any] = {"name": f"{random.choice(['st', 'Store', 'q.x'])}{number}"}
    store["kind"] = kind
    retention = random.choice(RETENTIONS)
    if kind == "versioned":
        store["history_retention_ms"] = 2 * retention
        store["segment_interval_ms"] = max(1, retention // random.choice([2, 5]))
    elif kind.startswith(("window", "session")):
        store["retention_ms"] = retention
        store["segment_interval_ms"] = max(1, retention // random.choice([1, 3]))
        if kind.startswith("window"):
            store["window_size_ms"] = random.choice([10, 50, 100])
            store["retain_duplicates"] = random.random() < 0.2
    return store


def _nodes(random: Random, stores: list[dict[str, Any]]) -> tuple[list[Any], set[str]]:
    """The nodes, and the topics that one sub-topology writes and another reads."""
    nodes: list[dict[str, Any]] = []
    linked: set[str] = set()
    unused = list(stores)
    parts = random.randint(1, 3)
    for part in range(parts):
        own = [unused.pop() for _ in range(min(len(unused), random.randint(1, 3)))]
        if part == parts - 1:
            own, unused = own + unused, []
        topics = [f"in{part}.{number}" for number in range(random.randint(1, 3))]
        if part and random.random() < 0.8:
            links = [f"link{part}.{number}" for number in range(random.choice([1, 1, 2, 3]))]
            linked.update(links)
            topics += links
        sources = [[topics[0]], topics[1:]] if random.random() < 0.5 and topics[1:] else [topics]
        parents: list[str] = []
        for number, read in enumerate(sources):
            parents.append(f"src{part}{number}")
            nodes.append({"source": parents[-1], "topics": read})
        processors: list[str] = []
        for number in range(random.randint(1, 4)):
            chosen = random.sample(parents + processors, k=1 + (random.random() < 0.3 and number))
            if not number:
                chosen = parents[:]
            taken = random.sample(own, k=random.randint(0, len(own)))
            processors.append(f"{random.choice('pPz')}{part}{number}")
            nodes.append(
                {
                    "processor": processors[-1],
                    "parents": chosen,
                    "stores": [store["name"] for store in taken],
                }
            )
        for store in own:
            users = [node for node in nodes if store["name"] in node.get("stores", ())]
            if not users:
                node = next(node for node in nodes if node.get("processor") == processors[0])
                node["stores"].append(store["name"])
        for number in range(random.randint(1, 3)):
            topic = f"out{random.choice([part, number])}"
            chosen = random.sample(processors, k=random.randint(1, len(processors)))
            nodes.append({"sink": f"snk{part}{number}", "topic": topic, "parents": chosen})
    earlier = [node["processor"] for node in nodes if "processor" in node]
    for topic in sorted(linked):
        part = int(topic[4])
        writers = [name for name in earlier if int(name[1]) < part]
        nodes.append({"sink": f"to {topic}", "topic": topic, "parents": [random.choice(writers)]})
    kinds: dict[str, Any] = {store["name"]: store for store in stores}
    kinds["linked"] = bool(linked)
    for node in nodes:
        if "processor" in node:
            children = [
                other.get("processor") or other["sink"]
                for other in nodes
                if node["processor"] in other.get("parents", ())
            ]
            node["steps"] = _steps(random, node["stores"], kinds, children)
            node["init"] = _first(random, node["stores"], kinds, children)
    return nodes, linked


def _first(
    random: Random, own: list[str], kinds: dict[str, Any], children: list[str]
) -> list[dict[str, Any]]:
    """Steps for the start: schedules, and writes to stores that have no records yet."""
    steps = []
    for _ in range(random.choice([0, 0, 1, 2])):
        steps.append(_schedule(random, own, kinds, children))
    if own and random.random() < 0.2:
        steps.append(_store_step(random, random.choice(own), kinds))
    return steps


def _schedule(
    random: Random, own: list[str], kinds: dict[str, Any], children: list[str], depth: int = 0
) -> dict[str, Any]:
    step: dict[str, Any] = {
        "op": "schedule",
        "interval": random.choice([7, 50, 100, 500]),
        "time_kind": random.choice(["stream_time", "wall_clock"]),
        "steps": _steps(random, own, kinds, children, depth + 1),
    }
    if random.random() < 0.3:
        step["calls"] = random.randint(1, 4)
    if random.random() < 0.3:
        step["start"] = random.choice([0, 33, 400, 1_000_100])
    return step


def _steps(
    random: Random,
    own: list[str],
    kinds: dict[str, Any],
    children: list[str],
    depth: int = 0,
) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for _ in range(random.randint(1, 6)):
        drawn = random.random()
        if drawn < 0.55 and own:
            step = _store_step(random, random.choice(own), kinds)
        elif drawn < 0.65:
            step = {
                "op": "header_add",
                "name": random.choice(HEADERS),
                "value": random.choice(["1", "a-b", "", None]),
                "in_place": random.random() < 0.5,
            }
        elif drawn < 0.7:
            step = {
                "op": "header_remove",
                "name": random.choice(HEADERS),
                "in_place": random.random() < 0.5,
            }
        elif drawn < 0.8:
            step = {"op": "set"}
            if random.random() < 0.5:
                step["key"] = random.choice([*KEYS, "$k", None])
            if random.random() < 0.7:
                step["value"] = random.choice(["$r", "$r", "$v", "w", None])
            if random.random() < 0.3:
                # A record of the future that a topic returns to the topology could recur for ever.
                ahead = [1, 50, 300] if not depth and not kinds["linked"] else []
                step["time"] = random.choice([-100, -1, *ahead])
        elif drawn < 0.86:
            step = {"op": "stamp"}
        elif drawn < 0.9 and depth < 2:
            step = _schedule(random, own, kinds, children, depth) | {"once": True}
        else:
            step = _forward(random, children)
        if random.random() < 0.3:
            step["every"] = random.randint(2, 4)
        steps.append(step)
    if random.random() < 0.8:
        steps.append({"op": "set", "value": "$r"})
        steps.append(_forward(random, children))
    return steps


def _forward(random: Random, children: list[str]) -> dict[str, Any]:
    to = random.choice(children) if children and random.random() < 0.4 else None
    return {"op": "forward", "to": to}


def _store_step(random: Random, name: str, kinds: dict[str, Any]) -> dict[str, Any]:
    shape = kinds[name]["kind"].partition("_")[0]
    ops = {
        "kv": ["put", "put", "put_if_absent", "delete", "get", "count", "count", "scan"],
        "versioned": ["put", "put", "put", "delete", "get", "as_of", "as_of"],
        "window": ["put", "put", "put", "get", "scan", "scan_all"],
        "session": ["put", "put", "delete", "get", "scan", "merge", "merge"],
    }
    op = random.choice(ops[shape])
    if op == "get" and kinds[name].get("retain_duplicates"):
        op = "scan"  # Kafka's answer is arbitrary
    step: dict[str, Any] = {"op": op, "store": name, "key": random.choice([*KEYS, KEYS[0]])}
    if op in ("put", "put_if_absent"):
        step["value"] = random.choice(["$v", "$v", "$r", "x", None])
    if random.random() < 0.3:
        step["time"] = random.choice([-500, -150, -20, 30, 150])
    if random.random() < 0.2:
        step["headers"] = "none"
    if shape == "kv" and op == "scan":
        bounds = random.choice([(None, None), ("k1", "k3"), ("k2", None), ("k4", "k0")])
        step |= {"from": bounds[0], "to": bounds[1], "reverse": random.random() < 0.5}
    if shape in ("window", "session"):
        step["reach"] = random.choice([0, 20, 100, 400])
    return step


def _input(random: Random, topics: list[str], end: int) -> dict[str, Any]:
    if random.random() < 0.15:
        return {"advance": random.choice([0, 1, 49, 50, 200, 1003])}
    names = random.sample(HEADERS, k=random.choice([0, 0, 1, 2]))
    if names and random.random() < 0.3:
        names.append(names[0])
    return {
        "topic": random.choice(topics),
        "key": random.choice([*KEYS, KEYS[0], None]),
        "value": random.choice(["a", "b", "17", "", None]),
        "timestamp": random.randrange(end),
        "headers": [[name, random.choice(["h", "", None])] for name in names],
    }


def draw_nodes(seed: int) -> dict[str, Any]:
    """A large program without steps, whose description is compared."""
    random = Random(seed)
    names = [f"{random.choice(['KSTREAM-', 'n', 'Node_', 'é', ''])}{n}" for n in range(40)]
    random.shuffle(names)
    nodes: list[dict[str, Any]] = []
    stores = [{"name": f"S{random.choice('abc')}{n}", "kind": "kv_plain"} for n in range(20)]
    parents: list[str] = []
    for number in range(random.randint(3, 40)):
        name = names[number]
        drawn = random.random()
        if not parents or drawn < random.choice([0.1, 0.2, 0.4]):
            topics = [f"topic-{number}-{n}" for n in range(random.choice([1, 1, 2, 5, 14]))]
            nodes.append({"source": name, "topics": topics})
            parents.append(name)
            continue
        recent = parents[-random.choice([1, 3, 40]) :]
        chosen = random.sample(recent, k=min(len(recent), random.choice([1, 1, 1, 2, 4])))
        if drawn > 0.85:
            nodes.append({"sink": name, "topic": f"out-{number}", "parents": chosen})
            continue
        used = random.sample(stores, k=random.choice([0, 0, 0, 1, 1, 3, 13]))
        names_of = [store["name"] for store in used]
        nodes.append({"processor": name, "parents": chosen, "stores": names_of})
        parents.append(name)
    taken = {store for node in nodes for store in node.get("stores", ())}
    return {"stores": [store for store in stores if store["name"] in taken], "nodes": nodes}
