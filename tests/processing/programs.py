"""Topologies as JSON programs, which Kafka's test driver and kstore's both run.

A program has stores, nodes and inputs. Its processors run steps, each with an operation ``op`` on a
record or on a store. ``TopologyProgram.java`` of tests/interop and the classes beside it interpret
the same programs for Kafka Streams. ``drawn.py`` makes programs from seeds.

Times of a versioned store are doubled, so that a tombstone (at an odd time) never has the time of a
value: there, kstore differs from Kafka Streams on purpose.
"""

from __future__ import annotations

import re
from typing import Any

from kstore_core import (
    AggregationWithHeaders,
    Headers,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    Windowed,
    serdes,
    stores,
)
from kstore_core.processing import Context, Processor, Record, TestDriver, Topology
from kstore_core.spec import StoreSpec

__all__ = ["described", "run", "topology_of"]

FACTORIES = {
    "kv_plain": stores.key_value,
    "kv_timestamped": stores.timestamped_key_value,
    "kv_headers": stores.timestamped_key_value_with_headers,
    "versioned": stores.versioned_key_value,
    "window_plain": stores.window,
    "window_timestamped": stores.timestamped_window,
    "window_headers": stores.timestamped_window_with_headers,
    "session_plain": stores.session,
    "session_headers": stores.session_with_headers,
}
LONGEST_VALUE = 60
MANY = 1_000_000


def topology_of(program: dict[str, Any]) -> Topology:
    """The topology of a program."""
    kinds = {store["name"]: store for store in program["stores"]}
    specs = {name: spec_of(store) for name, store in kinds.items()}
    topology = Topology()
    texts = {"key": serdes.UTF8, "value": serdes.UTF8}
    for node in program["nodes"]:
        if "source" in node:
            topology.add_source(node["source"], node["topics"], **texts)
        elif "sink" in node:
            topology.add_sink(node["sink"], node["topic"], node["parents"], **texts)
        else:
            own = {name: kinds[name] for name in node["stores"]}
            topology.add_processor(
                node["processor"],
                ProgramProcessor(node.get("init", []), node.get("steps", []), own),
                node["parents"],
                stores=[specs[name] for name in node["stores"]],
            )
    return topology


def spec_of(store: dict[str, Any]) -> StoreSpec:
    options = {name: value for name, value in store.items() if name != "kind"}
    return FACTORIES[store["kind"]](**options)  # type: ignore[operator,no-any-return]


def described(program: dict[str, Any]) -> str:
    return topology_of(program).describe()


def run(program: dict[str, Any], engine: str = "memory") -> dict[str, Any]:
    """The outputs, the changelogs and the contents of the stores at the end of a program."""
    kinds = {store["name"]: store for store in program["stores"]}
    sinks = {node["topic"] for node in program["nodes"] if "sink" in node}
    with TestDriver(topology_of(program), engine=engine, start_ms=program["start_ms"]) as driver:
        for step in program["inputs"]:
            if "advance" in step:
                driver.advance_wall_clock(step["advance"])
            else:
                driver.pipe_input(
                    step["topic"],
                    step["key"],
                    step["value"],
                    timestamp=step["timestamp"],
                    headers=of_texts(step["headers"]),
                )
        return {
            "outputs": {
                topic: [listed(one) for one in driver.read_output(topic)] for topic in sinks
            },
            "changelogs": {
                name: [listed(one, hexed) for one in driver.read_changelog(name)] for name in kinds
            },
            "stores": {
                name: ProgramStore(kind, driver.store(name)).dump(program)
                for name, kind in kinds.items()
            },
        }


def listed(record: Record[Any, Any], form: Any = lambda given: given) -> list[Any]:
    pairs = [[key, hexed(value)] for key, value in record.headers]
    return [form(record.key), form(record.value), record.timestamp, pairs]


def hexed(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def of_texts(pairs: list[list[str]]) -> Headers:
    return Headers([(key, encoded(value)) for key, value in pairs])


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class Cursor:
    """What the steps work on: a record, and the result of the last operation on a store."""

    def __init__(self, record: Record[str, str]) -> None:
        self.record = record
        self.result = "none"

    def value(self, expression: str | None) -> str | None:
        """A literal text, or what $k, $v and $r stand for."""
        names = {"$k": self.record.key, "$v": self.record.value, "$r": self.result}
        return names.get(expression, expression)  # type: ignore[arg-type]

    def time(self, step: dict[str, Any]) -> int:
        return max(0, self.record.timestamp + int(step.get("time", 0)))


class ProgramProcessor(Processor):
    """A processor that runs the steps of a program."""

    def __init__(self, init: list[Any], steps: list[Any], kinds: dict[str, Any]) -> None:
        self.first = init
        self.steps = steps
        self.kinds = kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramProcessor) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def init(self, context: Context) -> None:
        stores = {
            name: ProgramStore(kind, context.store(name)) for name, kind in self.kinds.items()
        }
        self.running = Steps(self.steps, context, stores)
        Steps(self.first, context, stores).run(Record("i", "init", context.system_time))

    def process(self, record: Record[Any, Any]) -> None:
        self.running.run(record)


class Steps:
    """The steps of a processor or of one of its schedules."""

    def __init__(self, steps: list[Any], context: Context, stores: dict[str, ProgramStore]) -> None:
        self.steps = steps
        self.context = context
        self.stores = stores
        self.counts = [0] * len(steps)

    def run(self, record: Record[Any, Any]) -> None:
        cursor = Cursor(record)
        for at, step in enumerate(self.steps):
            count = self.counts[at]
            self.counts[at] += 1
            if count % step.get("every", 1) == 0 and not ("once" in step and count):
                self.take(step, cursor)

    def take(self, step: dict[str, Any], cursor: Cursor) -> None:
        match step["op"]:
            case "set":
                changes: dict[str, Any] = {}
                if "key" in step:
                    changes["key"] = cursor.value(step["key"])
                if "value" in step:
                    changes["value"] = cut(
                        changes["key"]
                        if step["value"] == "$k" and "key" in changes
                        else cursor.value(step["value"])
                    )
                if "time" in step:
                    changes["timestamp"] = cursor.time(step)
                if changes:
                    cursor.record = cursor.record.replace(**changes)
            case "header_add":
                changed(step, cursor).add(step["name"], encoded(step["value"]))
            case "header_remove":
                changed(step, cursor).remove(step["name"])
            case "stamp":
                one = cursor.record
                origin = f"{one.topic or 'null'}-{one.partition}@{one.offset}"
                times = f"{self.context.stream_time}/{self.context.system_time}"
                cursor.record = one.replace(value=cut(f"{times}/{origin}"))
            case "forward":
                self.context.forward(cursor.record, to=step["to"])
            case "schedule":
                self.schedule(step)
            case _:
                cursor.result = cut(self.stores[step["store"]].run(step, cursor)) or ""

    def schedule(self, step: dict[str, Any]) -> None:
        called = Steps(step["steps"], self.context, self.stores)
        calls = 0

        def callback(time: int) -> None:
            nonlocal calls
            called.run(Record("p", str(time), time))
            calls += 1
            if calls >= step.get("calls", MANY):
                handle.cancel()

        handle = self.context.schedule(
            step["interval"], step["time_kind"], callback, start=step.get("start")
        )


def changed(step: dict[str, Any], cursor: Cursor) -> Headers:
    if not step["in_place"]:
        cursor.record = cursor.record.replace()
    return cursor.record.headers


def cut(value: str | None) -> str | None:
    return value if value is None else value[:LONGEST_VALUE]


class ProgramStore:
    """The operations of a program on a store of any shape, with results as text."""

    def __init__(self, kind: dict[str, Any], store: Any) -> None:
        self.spec = kind
        self.kind = kind["kind"]
        self.store = store

    def run(self, step: dict[str, Any], cursor: Cursor) -> str:
        key = encoded(cursor.value(step["key"])) if "key" in step else None
        value = cursor.value(step.get("value"))
        time = cursor.time(step)
        is_record = step.get("headers", "record") == "record"
        headers = cursor.record.headers if is_record else Headers()
        shape = getattr(self, self.kind.partition("_")[0])
        return shape(step, step["op"], key, value, time, headers)  # type: ignore[no-any-return]

    def kv(
        self, step: Any, op: str, key: Any, value: str | None, time: int, headers: Headers
    ) -> str:
        rows = self.store
        match op:
            case "put":
                rows.put(key, self.made(value, time, headers))
                return "put"
            case "put_if_absent":
                return shown(rows.put_if_absent(key, self.made(value, time, headers)))
            case "delete":
                return shown(rows.delete(key))
            case "get":
                return shown(rows.get(key))
            case "count":
                count = number(plain(rows.get(key))) + 1
                rows.put(key, self.made(str(count), time, headers))
                return str(count)
            case "scan":
                lo, hi = encoded(step["from"]), encoded(step["to"])
                return every(rows.range(lo, hi, reverse=step.get("reverse", False)))
        raise ValueError(op)

    def versioned(
        self, step: Any, op: str, key: Any, value: str | None, time: int, headers: Headers
    ) -> str:
        rows = self.store
        match op:
            case "put":
                return str(rows.put(key, encoded(value), timestamp=2 * time + (value is None)))
            case "delete":
                return shown(rows.delete(key, timestamp=2 * time + 1))
            case "get":
                return shown(rows.get(key))
            case "as_of":
                return shown(rows.get(key, 2 * time))
        raise ValueError(op)

    def window(
        self, step: Any, op: str, key: Any, value: str | None, time: int, headers: Headers
    ) -> str:
        rows = self.store
        start = time - time % self.spec["window_size_ms"]
        reach = step.get("reach", 0)
        lo, hi = max(0, time - reach), time + reach
        match op:
            case "put":
                rows.put(key, self.made(value, time, headers), window_start=start)
                return "put"
            case "get":
                return shown(rows.fetch_one(key, start))
            case "scan":
                return every(rows.fetch(key, lo, hi))
            case "scan_all":
                return every(rows.fetch_all(lo, hi))
        raise ValueError(op)

    def session(
        self, step: Any, op: str, key: Any, value: str | None, time: int, headers: Headers
    ) -> str:
        rows = self.store
        reach = step.get("reach", 0)
        match op:
            case "put":
                rows.put(Windowed(key, time, time + reach), self.made(value, time, headers))
                return "put"
            case "delete":
                rows.remove(Windowed(key, time, time + reach))
                return "removed"
            case "get":
                return shown(rows.fetch_session(key, time, time + reach))
            case "scan":
                return every(rows.find_sessions(key, max(0, time - reach), time + reach))
            case "merge":
                found = list(rows.find_sessions(key, max(0, time - reach), time + reach))
                start = min([time, *(session.start for session, _ in found)])
                end = max([time, *(session.end for session, _ in found)])
                count = 1 + sum(number(plain(value)) for _, value in found)
                for session, _ in found:
                    rows.remove(session)
                rows.put(Windowed(key, start, end), self.made(str(count), time, headers))
                return f"{start}..{end}={count}"
        raise ValueError(op)

    def dump(self, program: dict[str, Any]) -> list[str]:
        """The contents at the end of a program, as far as a store of this shape can be read."""
        if self.kind.startswith(("kv", "window")):
            return [every(self.store.all())]
        keys = [key.encode() for key in program["keys"]]
        if self.kind.startswith("session"):
            return [every(self.store.find_sessions(key, 0, MANY)) for key in keys]
        return [
            shown(self.store.get(key, time))
            for key in keys
            for time in [None, *(2 * time for time in program["times"])]
        ]

    def made(self, text: str | None, time: int, headers: Headers) -> Any:
        value = encoded(text)
        if self.kind == "session_headers":
            return AggregationWithHeaders.make(value, headers)
        if self.kind.endswith("_timestamped"):
            return ValueAndTimestamp.make(value, time)
        if self.kind.endswith("_headers"):
            return ValueTimestampHeaders.make(value, time, headers)
        return value


def every(scan: Any) -> str:
    with scan:
        return "|".join(f"{key_of(key)}:{shown(value)}" for key, value in scan)


def key_of(key: Any) -> str:
    if isinstance(key, Windowed):
        return f"{key_of(key.key)}<{key.start},{key.end}"
    return text(key) if isinstance(key, bytes) else str(key)


def shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (ValueAndTimestamp, VersionedRecord)):
        return f"{text(value.value)}@{value.timestamp}"
    if isinstance(value, ValueTimestampHeaders):
        return f"{text(value.value)}@{value.timestamp}{pairs(value.headers)}"
    if isinstance(value, AggregationWithHeaders):
        return f"{text(value.aggregation)}{pairs(value.headers)}"
    return text(value)


def plain(value: Any) -> str:
    return "" if value is None else re.split(r"[@\[]", shown(value))[0]


def number(given: str) -> int:
    return int(given) if re.fullmatch("[0-9]{1,9}", given) else 0


def text(value: bytes | None) -> str:
    return "~" if value is None else value.decode()


def pairs(headers: Headers) -> str:
    return "[" + ";".join(f"{key}={text(value)}" for key, value in headers) + "]"
