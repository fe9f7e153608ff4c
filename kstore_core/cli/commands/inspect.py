"""The command ``kstore inspect``, which describes the stores of a state directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kstore_core.cli.describing import in_words
from kstore_core.cli.output.exit_codes import CORRUPT, NotFoundError, adapted, exit_code
from kstore_core.cli.output.printing import print_fields, print_json
from kstore_core.cli.output.rendering import format_duration, format_time, printable
from kstore_core.cli.overview import (
    Overview,
    newest_format,
    open_to_read,
    possible_families,
    read_overview,
)
from kstore_core.cli.parameters.options import engine_option, json_option, path_argument
from kstore_core.cli.parameters.places import places
from kstore_core.cli.segments import documents
from kstore_core.errors import CorruptionError, KStoreError
from kstore_core.state import StateDirectory

__all__ = ["inspect"]

_OF_SPEC = (
    "history_retention_ms",
    "retention_ms",
    "window_size_ms",
    "segment_interval_ms",
    "retain_duplicates",
    "time_ordered",
    "indexed",
)


@click.command()
@path_argument
@engine_option
@json_option
def inspect(path: Path, engine: str | None, as_json: bool) -> None:
    """Print a description of each store in a directory.

    If PATH is the root of a store that Spark wrote, the command describes its shards. The exit code
    is 1 if there is no store, and 4 if a store or a segment is damaged. Stores that are not damaged
    are printed in any case.
    """
    found = places(path)
    errors: list[Exception] = []
    directories = [_directory(directory, engine, errors) for directory in found.directories]
    if as_json:
        print_json({"path": str(path), "version": found.version, "directories": directories})
    else:
        if found.version is not None:
            click.echo(f"{path}: a store in {found.partitions} shards, version {found.version}\n")
        for directory in directories:
            _print(directory)
    if not any(directory["stores"] for directory in directories):
        raise NotFoundError(f"{path} has no store")
    worst = max(errors, key=exit_code, default=None)
    for error in errors:
        if error is not worst and not as_json:
            click.echo(f"kstore: {printable(adapted(str(error)))}", err=True)
    if worst is not None:
        raise worst


def _directory(root: Path, engine: str | None, errors: list[Exception]) -> dict[str, Any]:
    with open_to_read(root, engine) as state:
        rows = [_row(state, name, errors) for name in state.stores()]
        return {"path": str(root), "engine": state.engine.name, "stores": rows}


def _row(state: StateDirectory, name: str, errors: list[Exception]) -> dict[str, Any]:
    """Return the description of a store, or its name and the reason why it cannot be read."""
    try:
        view = read_overview(state, name, whole=True)
        row = _store(view)
    except (KStoreError, OSError) as error:
        errors.append(_named(error, state.path, name))
        kind = "damage" if exit_code(error) == CORRUPT else "error"
        return _blank(name) | {kind: adapted(str(error))}
    found = [segment.damage for segment in view.segments or () if segment.damage]
    errors += [_named(CorruptionError(damage), state.path, name) for damage in found]
    return row


def _named(error: Exception, root: Path, store: str) -> Exception:
    """Return the error, or a new error that names the store if the error reports damage."""
    if exit_code(error) != CORRUPT:
        return error
    return CorruptionError(f"the store {store!r} in {root} is damaged: {error}")


def _blank(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "shape": None,
        "format": None,
        "known_from": None,
        "key_serde": None,
        "value_serde": None,
        **dict.fromkeys(_OF_SPEC),
        "stream_time": None,
        "namespaces": {},
        "older_rows": {},
        "offsets": [],
        "position": [],
        "segments": None,
        "segment_list": None,
        "damage": None,
        "error": None,
    }


def _store(view: Overview) -> dict[str, Any]:
    record = view.record
    row = _blank(view.name) | {
        "namespaces": view.namespaces,
        "stream_time": record.stream_time,
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in sorted(record.offsets.items())
        ],
        "position": [
            {"topic": topic, "partition": partition, "offset": offset}
            for topic, offsets in sorted((record.position or {}).items())
            for partition, offset in sorted(offsets.items())
        ],
    }
    if view.segments is not None:
        found = documents(view.segments, record.spec, record.stream_time)
        row |= {"segments": len(found), "segment_list": found}
    families = possible_families(view)
    shapes = [*dict.fromkeys(family.removeprefix("time_ordered_") for family in families)]
    if len(shapes) == 1 or view.segments is not None:
        row["shape"] = " or ".join(shapes)
    seen = newest_format(view, families[0])
    if seen is not None:
        row |= {
            "format": seen.name,
            "known_from": "namespaces",
            "older_rows": view.older_rows(seen),
        }
    spec = record.spec
    if spec is not None:
        row |= {
            "known_from": "spec",
            "key_serde": spec.key,
            "value_serde": spec.value,
            **{name: getattr(spec, name) for name in _OF_SPEC},
        }
    return row


def _print(directory: dict[str, Any]) -> None:
    click.secho(f"{directory['path']}  ({directory['engine']})", bold=True)
    for store in directory["stores"]:
        click.echo()
        print_fields(_fields(store), indent=2)
    click.echo()


def _fields(store: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the known facts about a store as pairs of a title and a text."""
    fields = [("store", store["name"]), ("is", _kind(store))]
    if store["key_serde"]:
        fields.append(("serdes", f"{store['key_serde']} -> {store['value_serde']}"))
    if store["history_retention_ms"] is not None:
        retention, interval = store["history_retention_ms"], store["segment_interval_ms"]
        text = f"{format_duration(retention)}, by segments of {format_duration(interval)}"
        fields.append(("history", text))
    if store["retention_ms"] is not None:
        fields.append(("retention", _retention(store)))
    fields += [("segment", _segment(segment)) for segment in store["segment_list"] or ()]
    if store["namespaces"]:
        counts = [f"{name} (about {count})" for name, count in store["namespaces"].items()]
        fields.append(("rows", ", ".join(counts)))
    for older, count in store["older_rows"].items():
        left = f"about {count} rows still have the format {older}; kstore upgrade converts them"
        fields.append(("being upgraded", left))
    if store["stream_time"] is not None:
        fields.append(("stream time", format_time(store["stream_time"])))
    for title in ("offsets", "position"):
        places = [f"{row['topic']}-{row['partition']}: {row['offset']}" for row in store[title]]
        if places:
            fields.append((title, ", ".join(places)))
    return fields


def _retention(store: dict[str, Any]) -> str:
    text = f"{format_duration(store['retention_ms'])}, by segments of "
    text += format_duration(store["segment_interval_ms"])
    if store["window_size_ms"] is not None:
        text += f"; windows of {format_duration(store['window_size_ms'])}"
    text += "; retains duplicates" if store["retain_duplicates"] else ""
    text += "; rows by time" if store["time_ordered"] else ""
    return text + (", with an index by key" if store["indexed"] else "")


def _segment(segment: dict[str, Any]) -> str:
    rows = "damaged" if segment["damage"] else f"about {segment['rows']} rows"
    if segment["id"] is None:
        return f"from {format_time(segment['start'])}: {rows}"
    state = {None: "", True: ", expired", False: ", live"}[segment["expired"]]
    times = f"{format_time(segment['start'])} to {format_time(segment['end'])}"
    return f"{segment['id']}, {times}: {rows}{state}"


def _kind(store: dict[str, Any]) -> str:
    if store["damage"]:
        return f"damaged: {store['damage']}"
    if store["error"]:
        return f"not readable: {store['error']}"
    if store["format"] is None and store["segments"] == 0:
        return f"a {store['shape']} store without segments: no rows were committed to it"
    if store["format"] is not None and store["shape"] is None:
        return f"{store['format']}, according to its namespaces; to read it, pass --shape"
    if store["format"] is None and store["segments"] is not None:
        return (
            f"a plain {store['shape']} store, according to its namespaces; to read it, pass --shape"
        )
    if store["format"] is None:
        return "a plain key-value store or a versioned store; to read it, pass --shape"
    shape = in_words(store["shape"])
    kind = shape if shape == store["format"] else f"{shape}, {store['format']}"
    if store["known_from"] == "namespaces":
        kind += " (according to its namespaces; no spec is stored)"
    return kind
