"""The reading of a store's rows, and their conversion to JSON and to text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from kstore_core import serdes
from kstore_core.cli.describing import Described, describe, in_words
from kstore_core.cli.output.rendering import (
    decoded,
    format_headers,
    format_time,
    format_value,
    json_headers,
    json_value,
)
from kstore_core.cli.overview import open_to_read, read_overview
from kstore_core.serdes import BuiltInSerde
from kstore_core.spec import StoreSpec
from kstore_core.typed import Scan
from kstore_core.types import AggregationWithHeaders, Windowed

__all__ = ["Reader", "opened", "titles"]


@dataclass(frozen=True, slots=True)
class Reader:
    """An open store that returns keys and values as bytes, and the serdes that decode them.

    Attributes
    ----------
    store : Any
        A store of :mod:`kstore_core.typed` whose keys and values are bytes.
    spec : StoreSpec
    key, value : BuiltInSerde
        The serdes that decode keys and values. The serde of bytes replaces a serde that is not
        built in.
    """

    store: Any
    spec: StoreSpec
    key: BuiltInSerde[Any]
    value: BuiltInSerde[Any]

    def document(self, key: bytes | Windowed[bytes], record: Any) -> dict[str, Any]:
        """Return a row as a JSON document, whose fields depend on the store's shape and format."""
        raw, times = _parts(key)
        row = {"key": json_value(decoded(raw, self.key))}
        row |= dict(zip(("start", "end"), times, strict=False))
        row["value"] = json_value(decoded(self._raw(record), self.value))
        value_format = self.spec.format
        if value_format.timestamped:
            row["timestamp"] = record.timestamp
        if value_format.versioned:
            row["valid_to"] = record.valid_to
        if value_format.headers:
            row["headers"] = json_headers(record.headers)
        return row

    def cells(self, key: bytes | Windowed[bytes], record: Any) -> list[str]:
        """Return a row as a list of texts, in the order of the columns that `titles` returns."""
        raw, times = _parts(key)
        row = [
            format_value(decoded(raw, self.key)),
            *map(format_time, times),
            format_value(decoded(self._raw(record), self.value)),
        ]
        value_format = self.spec.format
        if value_format.timestamped:
            row.append(format_time(record.timestamp))
        if value_format.versioned:
            row.append(format_time(record.valid_to))
        if value_format.headers:
            row.append(format_headers(record.headers))
        return row

    def fields(self, key: bytes | Windowed[bytes], record: Any) -> list[tuple[str, str]]:
        """Return a row as pairs of a title and a text, with one pair for each header."""
        fields = list(zip(titles(self.spec), self.cells(key, record), strict=True))
        if self.spec.format.headers:
            fields.pop()
            fields += [("header", format_headers([header])) for header in record.headers]
        return fields

    def in_time(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest: int | None,
        latest: int | None,
        *,
        reverse: bool = False,
    ) -> Scan[Windowed[bytes], Any]:
        """Return the windows that begin in a range of times, or the sessions that overlap it.

        Both ends of the range are inclusive.
        """
        windows = self.spec.shape == "window"
        find = self.store.fetch_range if windows else self.store.find_sessions_range
        found: Scan[Windowed[bytes], Any] = find(
            key_from, key_to, earliest, latest, reverse=reverse
        )
        return found

    def _raw(self, record: Any) -> bytes | None:
        if isinstance(record, AggregationWithHeaders):
            return cast("bytes", record.aggregation)
        raw: bytes | None = record.value if self.spec.format.timestamped else record
        return raw


def _parts(key: bytes | Windowed[bytes]) -> tuple[bytes, tuple[int, ...]]:
    """Return a key as bytes, and the start and end of its window or session if it has any."""
    return (key.key, (key.start, key.end)) if isinstance(key, Windowed) else (key, ())


def titles(spec: StoreSpec) -> list[str]:
    """Return the titles of the columns in which the rows of a store are printed."""
    times = ["start", "end"] if spec.shape in ("window", "session") else []
    row = ["key", *times, "value"]
    if spec.format.versioned:
        row += ["valid from", "valid to"]
    elif spec.format.timestamped:
        row.append("timestamp")
    return [*row, "headers"] if spec.format.headers else row


@contextmanager
def opened(root: Path, store: str, options: Mapping[str, Any]) -> Iterator[Reader]:
    """Open a store of a state directory read-only, yield a `Reader`, and close the store.

    Parameters
    ----------
    root : Path
    store : str
    options : mapping
        The option ``engine``, and the arguments of :func:`~kstore_core.cli.describing.describe`.
    """
    told = dict(options)
    with open_to_read(root, told.pop("engine")) as state:
        described = describe(read_overview(state, store), **told)
        if described.known_from == "namespaces":
            click.echo(f"kstore: reading {store!r} as {_kind(described)}", err=True)
        for older in described.older:
            click.echo(
                f"kstore: the upgrade of {store!r} is unfinished; rows still have the format "
                f"{older}",
                err=True,
            )
        if described.numbered:
            click.echo(
                f"kstore: the rows of {store!r} have sequence numbers, so the store retains "
                "duplicates; add --retain-duplicates",
                err=True,
            )
        spec = described.spec
        if described.known_from != "spec":
            # Reads without an index find every row. Reads with an index would find no row if the
            # store has no index.
            spec = replace(spec, indexed=False)
        key, value = (_serde(name) for name in (described.key_serde, described.value_serde))
        yield Reader(state.open(spec), spec, key, value)


def _kind(described: Described) -> str:
    spec = described.spec
    known = f"a {in_words(spec.family)} store of the format {spec.format.name}"
    return f"{known}, according to its namespaces"


def _serde(name: str) -> BuiltInSerde[Any]:
    """Return the built-in serde of this name, or the serde of bytes if there is none."""
    return serdes.found(name) or serdes.BYTES
