"""The HTML of records, headers, stores and versions, which ``_repr_html_`` returns.

The functions never open a store. They read the first rows of a store that is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any

from kstore_core.display.html import (
    ROWS,
    Markup,
    cell,
    duration,
    facts,
    guarded,
    moment,
    page,
    quiet,
    rows,
    words,
)
from kstore_core.errors import FormatError

__all__ = ["headers_html", "manifest_html", "record_html", "spec_html", "state_html", "store_html"]

_TIMES = {
    "timestamp": "unknown",
    "valid_to": "still valid",
    "start": "unknown",
    "end": "unknown",
}


@guarded
def record_html(record: Any) -> Markup:
    """Return the HTML of a record or a windowed key: its fields, with readable times."""
    return page(type(record).__name__, facts(_fields(record)))


@guarded
def headers_html(headers: Any) -> Markup:
    """Return the HTML of headers, in their order."""
    return page("Headers", _header_rows(headers))


@guarded
def spec_html(spec: Any) -> Markup:
    """Return the HTML of a store's spec."""
    return page(f"StoreSpec {spec.name}", _facts(_described(spec)))


@guarded
def store_html(store: Any) -> Markup:
    """Return the HTML of a store: its spec, its offsets and, while it is open, its first rows."""
    known = _described(store.spec)
    is_open = store.parts.context.open
    known["open"] = (
        ("read-only" if store.parts.context.read_only else "yes") if is_open else "no: closed"
    )
    if store.stream_time is not None:
        known["stream time"] = moment(
            None if store.stream_time < 0 else store.stream_time, "none yet"
        )
    known["offsets"] = _offsets(store.offsets())
    parts = [_facts(known)]
    if is_open:
        parts.append(_contents(store))
    return page(f"{type(store).__name__} {store.name}", *parts)


@guarded
def state_html(state: Any) -> Markup:
    """Return the HTML of a state directory: its path, its engine and its stores."""
    known = {
        "path": str(state.path),
        "engine": state.engine.name,
        "open": ("read-only" if state.read_only else "yes") if state._open else "no: closed",
    }
    if not state._open:
        return page("StateDirectory", _facts(known))
    known["not committed"] = f"{state.staged_bytes:,} bytes"
    opened = {name: there.spec for name, there in state._stores.items()}
    names = state.stores()
    found = ((words(name), *_summary(opened.get(name))) for name in names)
    return page(
        "StateDirectory",
        _facts(known),
        rows(("store", "shape", "format", "open"), found),
    )


@guarded
def manifest_html(manifest: Any) -> Markup:
    """Return the HTML of a version of a partitioned store: its metadata and its shards."""
    spec: Mapping[str, Any] = manifest.spec
    known = {
        "store": str(spec.get("name", "")),
        "shape": str(spec.get("shape", "")),
        "format": str(spec.get("format", "")),
        "engine": manifest.engine,
        "published": moment(manifest.created_ms, ""),
        "mode": manifest.mode,
        "records": f"{manifest.records:,} by the last jobs, {manifest.late:,} of them too late",
        "size": f"{manifest.bytes:,} bytes in {manifest.partitions} shards",
    }
    found = (
        (shard.shard, f"{shard.rows:,}", f"{shard.records:,}", f"{shard.bytes:,}", _time(shard))
        for shard in manifest.shards
    )
    columns = ("shard", "rows", "records", "bytes", "stream time")
    return page(
        f"Version {manifest.version}",
        _facts(known),
        rows(columns, (tuple(map(words, row)) for row in found)),
    )


def _fields(record: Any) -> dict[str, Any]:
    return {name: _field(name, getattr(record, name)) for name in record.__match_args__}


def _field(name: str, value: Any) -> Any:
    if name in _TIMES:
        return moment(None if value == -1 else value, _TIMES[name])
    if name == "headers":
        return _header_rows(value)
    return Markup(cell(value))


def _header_rows(headers: Any) -> Markup:
    try:
        count = len(headers)
    except FormatError as error:
        return quiet(f"malformed: {error}")
    return rows(("key", "value"), ((h.key, h.value) for h in headers)) if count else quiet("none")


@guarded
def _contents(store: Any) -> Markup:
    """Return the HTML of a store's first rows; for a versioned store, of its latest versions."""
    everything = getattr(store, "all", None)
    scan = store.find_sessions_between(None, None) if everything is None else everything()
    with closing(scan):
        found = list(islice(scan, ROWS + 1))
    if not found:
        return quiet("empty")
    keys, columns = _columns(found[0][0]), _columns(found[0][1])
    lines = ((*_parts(key, keys, "key"), *_parts(value, columns, "value")) for key, value in found)
    return rows((*(keys or ("key",)), *(columns or ("value",))), lines)


def _columns(thing: Any) -> tuple[str, ...]:
    """Return the names of the fields of a record or a windowed key; empty for any other value."""
    kstores = type(thing).__module__.startswith("kstore_core.")
    return tuple(getattr(thing, "__match_args__", ())) if kstores else ()


def _parts(thing: Any, names: tuple[str, ...], otherwise: str) -> Iterator[Any]:
    if not names:
        yield _field(otherwise, thing)
    for name in names:
        value = getattr(thing, name)
        yield _inline(value) if name == "headers" else _field(name, value)


def _inline(headers: Any) -> Markup:
    """Return the HTML of the first headers of a row, one header per line."""
    try:
        first = [f"{cell(h.key)} {cell(h.value)}" for h in islice(iter(headers), 3)]
    except FormatError as error:
        return quiet(f"malformed: {error}")
    more = [quiet(f"… {len(headers) - 3} more")] if len(headers) > 3 else []
    return Markup("<br>".join([*first, *more]))


def _described(spec: Any) -> dict[str, Any]:
    """Return the fields of a spec that are set, with a title for each field."""
    known = {
        "shape": spec.family,
        "format": spec.format.name,
        "key, value": f"{spec.key.name}, {spec.value.name}",
        "history": spec.history_retention_ms,
        "retention": spec.retention_ms,
        "window": spec.window_size_ms,
        "segment interval": spec.segment_interval_ms,
    }
    filled = {name: value for name, value in known.items() if value is not None}
    return {n: duration(value) if isinstance(value, int) else value for n, value in filled.items()}


def _facts(known: Mapping[str, Any]) -> Markup:
    return facts({name: words(value) for name, value in known.items()})


def _summary(spec: Any) -> tuple[Markup, Markup, Markup]:
    if spec is None:
        return Markup(""), Markup(""), quiet("no")
    return words(spec.family), words(spec.format.name), words("yes")


def _offsets(offsets: Mapping[tuple[str, int], int]) -> str:
    listed = [
        f"{topic}-{number}: {offset}" for (topic, number), offset in islice(offsets.items(), ROWS)
    ]
    more = [f"… {len(offsets) - ROWS} more"] if len(offsets) > ROWS else []
    return ", ".join([*listed, *more]) or "none"


def _time(shard: Any) -> Markup:
    return moment(None if shard.stream_time < 0 else shard.stream_time, "none yet")
