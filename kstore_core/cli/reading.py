"""Opening a store to read it, and its rows as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kstore_core import serdes
from kstore_core.cli.looking import Described, describe, look, open_to_read
from kstore_core.cli.rendering import (
    decoded,
    json_headers,
    json_value,
    shown_headers,
    shown_time,
    shown_value,
)
from kstore_core.formats import ValueFormat
from kstore_core.serdes import BuiltInSerde

__all__ = ["Reader", "opened", "titles"]


@dataclass(frozen=True, slots=True)
class Reader:
    """An open store whose keys and values are bytes, and how to show them.

    Attributes
    ----------
    store : Any
        A :class:`~kstore_core.typed.KeyValueStore` or VersionedStore of bytes.
    format : ValueFormat
    key, value : BuiltInSerde
        How keys and values are shown; bytes where the store's serde is not a built-in one.
    """

    store: Any
    format: ValueFormat
    key: BuiltInSerde[Any]
    value: BuiltInSerde[Any]

    def document(self, key: bytes, record: Any) -> dict[str, Any]:
        """A row as JSON: the fields that the store's format has."""
        row = {
            "key": json_value(decoded(key, self.key)),
            "value": json_value(decoded(self._raw(record), self.value)),
        }
        if self.format.timestamped:
            row["timestamp"] = record.timestamp
        if self.format.versioned:
            row["valid_to"] = record.valid_to
        if self.format.headers:
            row["headers"] = json_headers(record.headers)
        return row

    def cells(self, key: bytes, record: Any) -> list[str]:
        """A row as text, in the order of :func:`titles`."""
        row = [
            shown_value(decoded(key, self.key)),
            shown_value(decoded(self._raw(record), self.value)),
        ]
        if self.format.timestamped:
            row.append(shown_time(record.timestamp))
        if self.format.versioned:
            row.append(shown_time(record.valid_to))
        if self.format.headers:
            row.append(shown_headers(record.headers))
        return row

    def fields(self, key: bytes, record: Any) -> list[tuple[str, str]]:
        """A row as names and texts, each header by itself."""
        fields = list(zip(titles(self.format), self.cells(key, record), strict=True))
        if self.format.headers:
            fields.pop()
            fields += [("header", shown_headers([header])) for header in record.headers]
        return fields

    def _raw(self, record: Any) -> bytes | None:
        raw: bytes | None = record.value if self.format.timestamped else record
        return raw


def titles(value_format: ValueFormat) -> list[str]:
    """The columns of a row of this format."""
    row = ["key", "value"]
    if value_format.versioned:
        row += ["valid from", "valid to"]
    elif value_format.timestamped:
        row.append("timestamp")
    return [*row, "headers"] if value_format.headers else row


@contextmanager
def opened(root: Path, store: str, options: Mapping[str, Any]) -> Iterator[Reader]:
    """A store of a state directory, read-only.

    Parameters
    ----------
    root : Path
    store : str
    options : mapping
        ``engine``, and the arguments of :func:`~kstore_core.cli.looking.describe`.
    """
    told = dict(options)
    with open_to_read(root, told.pop("engine")) as state:
        described = describe(look(state, store), **told)
        if described.known_from == "namespaces":
            click.echo(f"kstore: reading {store!r} as {_kind(described)}", err=True)
        for older, count in described.older_rows.items():
            click.echo(
                f"kstore: {store!r} is being upgraded; about {count} rows are still {older}",
                err=True,
            )
        key, value = (_serde(name) for name in (described.key_serde, described.value_serde))
        yield Reader(state.open(described.spec), described.spec.format, key, value)


def _kind(described: Described) -> str:
    shape = described.spec.shape.replace("_", "-")
    return f"a {shape} store of the format {described.spec.format.name}, by its namespaces"


def _serde(name: str) -> BuiltInSerde[Any]:
    """The serde of this name; bytes are shown where it is somebody's own."""
    return serdes.BUILT_IN.get(name, serdes.BYTES)
