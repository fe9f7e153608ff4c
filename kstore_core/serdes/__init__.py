"""Serdes, which convert keys and values to bytes. Built-in serdes are compatible with Kafka's."""

from kstore_core.serdes.binding import bound, bound_spec
from kstore_core.serdes.built_in import (
    BOOLEAN,
    BUILT_IN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    JSON,
    TIMESTAMP,
    UTF8,
)
from kstore_core.serdes.names import by_name, found
from kstore_core.serdes.pair import StateSerdes
from kstore_core.serdes.records import RecordSerde, record
from kstore_core.serdes.schema_registry import RegistrySerde, registry
from kstore_core.serdes.serde import BuiltInSerde, Serde
from kstore_core.serdes.texts import value_of_text
from kstore_core.serdes.typed import TypedSerde, arrow_row, decimal, json_row

__all__ = [
    "BOOLEAN",
    "BUILT_IN",
    "BYTES",
    "DATE",
    "FLOAT64",
    "INT32",
    "INT64",
    "JSON",
    "TIMESTAMP",
    "UTF8",
    "BuiltInSerde",
    "RecordSerde",
    "RegistrySerde",
    "Serde",
    "StateSerdes",
    "TypedSerde",
    "arrow_row",
    "bound",
    "bound_spec",
    "by_name",
    "decimal",
    "found",
    "json_row",
    "record",
    "registry",
    "value_of_text",
]
