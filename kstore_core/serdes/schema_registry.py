"""Serdes of a Schema Registry. They use the serialisers of the library ``confluent-kafka``."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kstore_core.checks import check_choice
from kstore_core.codec import Headers
from kstore_core.errors import EngineUnavailableError, FormatError, SpecError
from kstore_core.hints import install
from kstore_core.serdes.schemas import avro_type, is_repeated, json_type, protobuf_type
from kstore_core.serdes.typed import from_arrow
from kstore_core.serdes.types import Type

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.schema_registry import SchemaRegistryClient

__all__ = ["RegistrySerde", "registry"]

_PREFIX = b"\0"
"""The first byte of a prefix with an ID."""

_ID_HEADERS = {True: "__key_schema_id", False: "__value_schema_id"}


def registry(
    client: SchemaRegistryClient | Mapping[str, Any],
    schema: Any,
    kind: str = "avro",
    *,
    ids: str = "header",
    config: Mapping[str, Any] | None = None,
) -> RegistrySerde:
    """Return the serde of values with a schema in a Schema Registry.

    Parameters
    ----------
    client : SchemaRegistryClient or mapping
        The client of the library ``confluent-kafka``, or its configuration, such as
        ``{"url": "http://localhost:8081"}``. A pickled serde contains the configuration.
    schema : str or type
        The schema of the values in Avro or JSON Schema, or the class of Protobuf messages.
    kind : {"avro", "json", "protobuf"}
    ids : {"header", "prefix"}
        The place to which the serde writes the schema's ID: a header of the record, or a prefix of
        the bytes. The serde reads the ID from either place. ``"header"`` needs a store with
        headers.
    config : mapping, optional
        Further settings of the library's serialiser, such as ``{"auto.register.schemas": False}``.

    Raises
    ------
    SpecError
        An argument is not valid.
    EngineUnavailableError
        The library is not installed. The first use of the serde raises this error.
    """
    check_choice("kind", kind, ("avro", "json", "protobuf"))
    check_choice("ids", ids, ("header", "prefix"))
    return RegistrySerde(client, schema, kind, ids, dict(config or {}))


class RegistrySerde:
    """A serde whose schema is in a Schema Registry; see :func:`registry`.

    The values are dicts. With Protobuf, the values are messages, and a write also accepts a dict of
    fields. A write needs the name of the schema's subject, which usually contains the topic. So the
    serde must be bound to a topic with :meth:`bind`. A store binds its serdes to the topic of its
    changelog. A store without a changelog binds its serdes to ``<store>-changelog``.
    """

    def __init__(
        self,
        client: SchemaRegistryClient | Mapping[str, Any],
        schema: Any,
        kind: str,
        ids: str,
        config: dict[str, Any],
        at: tuple[str, bool] | None = None,
        made: list[tuple[Callable[..., Any], Callable[..., Any]]] | None = None,
    ) -> None:
        self.name = f"registry-{kind}"
        self.needs_headers = ids == "header"
        self._client = client
        self._parts = (schema, kind, ids, config)
        self._at = at
        self._made = [] if made is None else made

    def bind(self, topic: str, is_key: bool) -> RegistrySerde:
        """Return the serde of the keys or the values of a topic."""
        return RegistrySerde(self._client, *self._parts, (topic, is_key), self._made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegistrySerde) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts[1:3])

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        client = self._client
        config = dict(client if isinstance(client, Mapping) else client.config())  # type: ignore[no-untyped-call]
        return RegistrySerde, (config, *self._parts, self._at)

    def __repr__(self) -> str:
        _, kind, ids, _ = self._parts
        return f"serdes.registry(…, kind={kind!r}, ids={ids!r})"

    @cached_property
    def type(self) -> Type:
        """The type that the schema describes."""
        schema, kind, _, _ = self._parts
        if kind == "protobuf":
            return protobuf_type(schema.DESCRIPTOR)
        return (avro_type if kind == "avro" else json_type)(json.loads(schema))

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type.arrow

    def from_arrow(self, value: Any) -> Any:
        """Return a value of an Arrow column as :meth:`serialize` accepts it."""
        return from_arrow(self.type, value)

    def arrow_value(self, value: Any) -> Any:
        """Return a value as an Arrow column accepts it. A message becomes a dict."""
        return _fields_of(value) if self._parts[1] == "protobuf" else value

    def serialize(self, value: Any, headers: Headers) -> bytes | None:
        """Return the bytes of a value. With ``ids="header"``, add a header with the ID."""
        if self._at is None:
            raise SpecError(
                f"{self!r} cannot write before it is bound to a topic, which names the subject of "
                "its schema; call bind(topic, is_key)"
            )
        topic, is_key = self._at
        added: list[Any] = []
        if self._parts[1] == "protobuf" and isinstance(value, dict):
            value = self._parts[0](**value)
        data: bytes | None = self._both[0](value, _context(topic, is_key, added))
        for name, header in added:
            headers.remove(name)  # the ID of another schema
            headers.add(name, header)
        return data

    def deserialize(self, data: bytes, headers: Headers) -> Any:
        """Return the value that bytes contain. The ID is in a header or in a prefix of the bytes.

        With ``ids="header"``, bytes without an ID are read with the schema of the serde.

        Raises
        ------
        FormatError
            The bytes are not a value of their schema, or have no ID although ``ids`` is
            ``"prefix"``.
        """
        topic, is_key = self._at or ("", False)
        found = headers.value(_ID_HEADERS[is_key])
        try:
            if found is None and self.needs_headers:
                try:
                    return self._without_id(data)
                except _format_errors(self._parts[1]):
                    if data[:1] != _PREFIX:
                        raise
            # Pass the ID as a prefix. The library rejects short values with the ID in a header.
            return self._both[1]((found or b"") + data, _context(topic, is_key, []))
        except _format_errors(self._parts[1]) as error:  # not those of the registry's server
            raise FormatError(f"stored bytes are not a value of {self!r}: {error}") from error

    def _without_id(self, data: bytes) -> Any:
        schema, kind, _, _ = self._parts
        if kind == "json":
            return json.loads(data)
        if kind == "protobuf":
            return schema.FromString(data)
        import fastavro

        parsed, file = fastavro.parse_schema(json.loads(schema)), io.BytesIO(data)
        value = fastavro.schemaless_reader(file, parsed)
        if file.tell() < len(data):
            raise ValueError(f"{len(data) - file.tell()} bytes follow the value")
        return value

    @property
    def _both(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The library's serialiser and deserialiser, which the bound copies of the serde share."""
        if not self._made:
            self._made.append(self._make())
        return self._made[0]

    def _make(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        try:
            from confluent_kafka import schema_registry as library
            from confluent_kafka.schema_registry import avro, json_schema, protobuf
        except ImportError as error:
            raise EngineUnavailableError(
                f"{self!r} needs a library that is not installed ({error}): {install('registry')}"
            ) from error
        schema, kind, ids, config = self._parts
        client = self._client
        if isinstance(client, Mapping):
            client = library.SchemaRegistryClient.new_client(dict(client))
        write = {
            "schema.id.serializer": (
                library.header_schema_id_serializer
                if ids == "header"
                else library.prefix_schema_id_serializer
            ),
            **config,
        }
        read = {"schema.id.deserializer": library.dual_schema_id_deserializer}
        if kind == "avro":
            return (
                avro.AvroSerializer(client, schema, conf=write),
                avro.AvroDeserializer(client, schema, conf=read),
            )
        if kind == "json":
            return (
                json_schema.JSONSerializer(schema, client, conf=write),
                json_schema.JSONDeserializer(schema, schema_registry_client=client, conf=read),
            )
        return (
            protobuf.ProtobufSerializer(schema, client, conf=write),
            protobuf.ProtobufDeserializer(schema, conf=read, schema_registry_client=client),
        )


def _format_errors(kind: str) -> tuple[type[Exception], ...]:
    from confluent_kafka.serialization import SerializationError

    errors = SerializationError, ValueError, EOFError, IndexError, struct.error
    if kind != "protobuf":
        return errors
    from google.protobuf.message import DecodeError

    return *errors, DecodeError


def _context(topic: str, is_key: bool, headers: list[Any]) -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    field = MessageField.KEY if is_key else MessageField.VALUE
    return SerializationContext(topic, field, headers)


def _fields_of(value: Any) -> Any:
    """Return a Protobuf message as a dict of all its fields, at any depth."""
    if not hasattr(value, "DESCRIPTOR"):
        return value
    fields: dict[str, Any] = {}
    for field in value.DESCRIPTOR.fields:
        found = getattr(value, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            fields[field.name] = {key: _fields_of(item) for key, item in found.items()}
        elif is_repeated(field):
            fields[field.name] = list(map(_fields_of, found))
        elif field.has_presence and not value.HasField(field.name):
            fields[field.name] = None
        else:
            fields[field.name] = _fields_of(found)
    return fields
