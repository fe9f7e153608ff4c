"""Serdes of a Schema Registry: the library's mock of one, and one that cannot be reached."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.changelog import FileChangelog
from kstore_core.errors import FormatError, SpecError
from kstore_core.processing import TestDriver, Topology
from kstore_core.serdes.schemas import avro_type, json_type

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "sku", "type": "string"},
            {"name": "count", "type": ["null", "long"], "default": None},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "rates", "type": {"type": "map", "values": "double"}},
        ],
    }
)
JSON = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {
            "sku": {"type": "string"},
            "count": {"type": ["null", "integer"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
)
ORDER = {
    "sku": "a",
    "count": 3,
    "day": dt.date(2026, 1, 31),
    "price": Decimal("12.50"),
    "tags": ["x", "y"],
    "rates": {"EUR": 1.5},
}
PART = {name: ORDER[name] for name in ("sku", "count", "tags", "rates")}


def message_class() -> Any:
    """The class of messages with a field of each sort."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="RatesEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=1, label=1)
    order.nested_type.add(name="Place").field.add(name="city", number=1, type=9, label=1)
    order.field.add(name="sku", number=1, type=9, label=1)
    order.field.add(name="count", number=2, type=3, label=1)
    order.field.add(name="tags", number=3, type=9, label=3)
    order.field.add(name="rates", number=4, type=11, label=3, type_name=".shop.Order.RatesEntry")
    order.field.add(name="place", number=5, type=11, label=1, type_name=".shop.Order.Place")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


Message = message_class()
CASES = {"avro": (AVRO, ORDER), "json": (JSON, PART), "protobuf": (Message, PART)}


@pytest.fixture
def registry() -> dict[str, str]:
    """The configuration of a client of an empty mock."""
    return {"url": f"mock://{uuid4()}"}


@pytest.mark.parametrize("ids", ["header", "prefix"])
@pytest.mark.parametrize("kind", CASES)
def test_a_store_keeps_values_and_ids(registry: dict[str, str], kind: str, ids: str) -> None:
    schema, value = CASES[kind]
    serde = serdes.registry(registry, schema, kind, ids=ids)
    spec = stores.timestamped_key_value_with_headers("orders", key=serdes.UTF8, value=serde)
    with open_state("state/0_0", engine="memory") as state:
        store = state.open(spec)
        store.put("k", value, timestamp=1, headers=[("trace", b"1")])
        first = store.get("k")
        read = first.value if kind != "protobuf" else Message(**value)
        assert first.value == read
        names = [name for name, _ in first.headers]
        assert names == ["trace", *(["__value_schema_id"] if ids == "header" else [])]
        store.put("k", first.value, timestamp=2, headers=first.headers)  # has one ID, not two
        assert [name for name, _ in store.get("k").headers] == names
        table = store.all().to_arrow()
        assert table["value"].type == serde.arrow_type
        row = table["value"].to_pylist()[0]
        rates = dict(row.pop("rates"))
        assert {"place": None, **row, "rates": rates} == {"place": None, **value}


def test_the_subject_has_the_topic_of_the_changelog(
    registry: dict[str, str], tmp_path: Any
) -> None:
    client = SchemaRegistryClient.new_client(registry)
    spec = stores.key_value(
        "orders",
        key=serdes.registry(client, JSON, "json", ids="prefix"),
        value=serdes.registry(client, AVRO, ids="prefix"),
    )
    with (
        FileChangelog(tmp_path / "logs", "shop-orders-changelog", 0) as log,
        open_state(tmp_path / "0_0", engine="memory", changelog=log) as state,
    ):
        state.open(spec).put(PART, ORDER)
        state.commit()
        assert sorted(client.get_subjects()) == [
            "shop-orders-changelog-key",
            "shop-orders-changelog-value",
        ]


def test_a_reader_finds_the_schema_of_the_writer(registry: dict[str, str]) -> None:
    client = SchemaRegistryClient.new_client(registry)
    old = {"type": "record", "name": "Order", "fields": [{"name": "sku", "type": "string"}]}
    new = {**old, "fields": [*old["fields"], {"name": "n", "type": "int", "default": 7}]}
    for ids in ("header", "prefix"):
        writer, reader = (
            serdes.registry(client, json.dumps(schema), ids=ids).bind("t", is_key=False)
            for schema in (old, new)
        )
        headers = Headers()
        data = writer.serialize({"sku": "a"}, headers)
        assert reader.deserialize(data, headers) == {"sku": "a", "n": 7}


@pytest.mark.parametrize("kind", CASES)
def test_a_reader_finds_an_id_wherever_the_writer_put_it(
    registry: dict[str, str], kind: str
) -> None:
    schema, value = CASES[kind]
    client = SchemaRegistryClient.new_client(registry)
    both = {
        ids: serdes.registry(client, schema, kind, ids=ids).bind("t", is_key=False)
        for ids in ("header", "prefix")
    }
    for writer in both.values():
        for reader in both.values():
            headers = Headers()
            data = writer.serialize(value, headers)
            found = reader.deserialize(data, headers)
            assert reader.arrow_value(found) == reader.arrow_value(
                writer.deserialize(data, headers)
            )
    with pytest.raises(FormatError, match="are not a value of"):
        both["header"].deserialize(b"\1", Headers())


@pytest.mark.parametrize("kind", CASES)
def test_bytes_without_an_id_have_the_schema_of_the_serde(
    registry: dict[str, str], kind: str
) -> None:
    schema, value = CASES[kind]
    serde = serdes.registry(registry, schema, kind).bind("t", is_key=True)
    headers = Headers()
    data = serde.serialize(value, headers)
    assert [name for name, _ in headers] == ["__key_schema_id"]
    assert serde.deserialize(data, Headers()) == serde.deserialize(data, headers)
    with pytest.raises(FormatError, match="not a value of serdes"):
        serde.deserialize(b"\xff\xff\xff\xff", Headers())


def test_pickles_have_the_configuration(registry: dict[str, str]) -> None:
    for client in (registry, SchemaRegistryClient.new_client(registry)):
        serde = serdes.registry(client, AVRO, ids="prefix").bind("t", is_key=False)
        copy = pickle.loads(pickle.dumps(serde))
        assert copy == serde
        assert hash(copy) == hash(serde)
        assert copy.serialize(ORDER, Headers())[5:] == serde.serialize(ORDER, Headers())[5:]
    assert serde != serdes.registry(registry, AVRO, ids="header")


def test_a_server_that_is_away_is_no_damage() -> None:
    """Only bytes that are wrong are reported as such."""
    serde = serdes.registry({"url": "http://127.0.0.1:9", "max.retries": 0}, AVRO, ids="prefix")
    with pytest.raises(Exception, match=r"(?i)connect") as caught:
        serde.deserialize(b"\0\0\0\0\1abc", Headers())
    assert not isinstance(caught.value, FormatError)


def test_a_topology_binds_its_serdes_to_its_topics(registry: dict[str, str]) -> None:
    client = SchemaRegistryClient.new_client(registry)
    serde = serdes.registry(client, AVRO)
    topology = Topology()
    topology.add_source("in", "orders", key=serdes.UTF8, value=serde)
    topology.add_sink("out", "copies", ["in"], key=serdes.UTF8, value=serde)
    with TestDriver(topology) as driver:
        for _ in range(2):
            driver.pipe_input("orders", "k", ORDER, timestamp=1)
        assert [record.value for record in driver.read_output("copies")] == [ORDER] * 2
    assert sorted(client.get_subjects()) == ["copies-value", "orders-value"]


def test_refusals(registry: dict[str, str]) -> None:
    serde = serdes.registry(registry, AVRO)
    with pytest.raises(SpecError, match="call bind"):
        serde.serialize(ORDER, Headers())
    plain = stores.key_value("plain", value=serde)
    with (
        open_state("state/0_0", engine="memory") as state,
        pytest.raises(SpecError, match="the store has no headers; use ids='prefix'"),
    ):
        state.open(plain)
    with pytest.raises(SpecError, match="kind must be 'avro', 'json' or 'protobuf'"):
        serdes.registry(registry, AVRO, "xml")
    with pytest.raises(SpecError, match="ids must be 'header' or 'prefix'"):
        serdes.registry(registry, AVRO, ids="magic")
    with pytest.raises(SpecError, match="several types"):
        avro_type(["int", "string"])
    with pytest.raises(SpecError, match="has no Arrow type"):
        json_type({"anyOf": []})
    with pytest.raises(SpecError, match="has no Arrow type"):
        avro_type({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]})


def test_a_named_type_is_used_again() -> None:
    side = {"type": "enum", "name": "Side", "symbols": ["BUY"]}
    fields = [{"name": "a", "type": side}, {"name": "b", "type": "Side"}]
    kind = avro_type({"type": "record", "name": "R", "fields": fields})
    assert kind.arrow == pa.struct([("a", pa.string()), ("b", pa.string())])
