"""The files of changes, each of which contains what one epoch wrote to a shard.

A file is an Arrow stream with the columns ``key`` and ``value``, compressed by zstd. A record batch
of the stream contains the rows that one write puts into one namespace (an ordered map of a
database). A record batch for an operation other than a write has no rows. The metadata of each
record batch describe its operation as JSON. A null value deletes its key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core.engine import Database, Engine, Rows
from kstore_core.errors import CorruptionError
from kstore_core.spark.remote.recording import Operation

__all__ = ["apply_changes", "decode_changes", "encode_changes"]

_SCHEMA = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
_FORMAT = 1


def encode_changes(operations: Iterable[Operation]) -> bytes:
    """Return the content of a file with these operations."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    about = _SCHEMA.with_metadata({"format": str(_FORMAT)})
    with pa.ipc.new_stream(sink, about, options=options) as writer:
        for operation in operations:
            spaces = list(operation.batch.items()) or [("", Rows())]
            for place, (namespace, rows) in enumerate(spaces):
                described = {
                    "kind": operation.kind,
                    "store": operation.store,
                    "child": operation.child,
                    "name": operation.name,
                    "namespace": namespace,
                    "continues": place > 0,  # in the write of the previous record batch
                    "deleted_ranges": [
                        [lo.hex(), None if hi is None else hi.hex()]
                        for lo, hi in rows.deleted_ranges
                    ],
                }
                columns = [pa.array(each, pa.large_binary()) for each in (rows.keys, rows.values)]
                batch = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
                text = json.dumps(described, separators=(",", ":"))
                writer.write_batch(batch, custom_metadata={"operation": text})
    return bytes(sink.getvalue())


def decode_changes(data: bytes, where: str) -> Iterator[Operation]:
    """Yield the operations of a file of changes.

    Raises CorruptionError, which names the file ``where``, if the file cannot be decoded.
    """
    try:
        yield from _decoded(data)
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise CorruptionError(
            f"{where} cannot be read as a file of changes ({type(error).__name__}: {error}). If a "
            "newer kstore wrote the file, upgrade kstore; if not, restore the file from a copy"
        ) from error


def _decoded(data: bytes) -> Iterator[Operation]:
    written: dict[str, Rows] = {}
    last: Operation | None = None
    with pa.ipc.open_stream(data) as reader:
        newest = int((reader.schema.metadata or {})[b"format"])
        if newest > _FORMAT:
            raise ValueError(f"its format is {newest}, but this kstore reads up to {_FORMAT}")
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                break
            given: dict[str, Any] = json.loads(metadata[b"operation"])
            if last is not None and not given["continues"]:
                yield last
                written = {}
            if given["namespace"]:
                written[given["namespace"]] = Rows(
                    batch.column(0).to_pylist(),
                    batch.column(1).to_pylist(),
                    [
                        (bytes.fromhex(lo), None if hi is None else bytes.fromhex(hi))
                        for lo, hi in given["deleted_ranges"]
                    ],
                )
            last = Operation(given["kind"], given["store"], given["child"], given["name"], written)
    if last is not None:
        yield last


def apply_changes(engine: Engine, root: Path, operations: Iterable[Operation]) -> None:
    """Apply operations to the closed state directory ``root``."""
    databases: dict[tuple[str, str | None], Database] = {}

    def opened(store: str, child: str | None) -> Database:
        at = (store, child)
        if at not in databases:
            databases[at] = (
                engine.open(root, store) if child is None else engine.open_child(root, store, child)
            )
        return databases[at]

    def without(work: Callable[..., object], store: str, child: str, *more: str) -> None:
        database = databases.pop((store, child), None)
        if database is not None:
            database.close()
        work(root, store, child, *more)

    try:
        for each in operations:
            if each.kind in ("write", "drop_namespace"):
                database = opened(each.store, each.child)
                if each.kind == "write":
                    for name in each.batch:
                        database.namespace(name)
                    database.write(each.batch)
                else:
                    database.drop_namespace(each.name)
            elif each.kind == "make_parent":
                engine.make_parent(root, each.store)
            elif each.kind == "drop_parent":
                engine.drop_parent(root, each.store)
            else:
                assert each.child is not None
                if each.kind == "drop_child":
                    without(engine.drop_child, each.store, each.child)
                else:
                    without(engine.rename_child, each.store, each.child, each.name)
    finally:
        with ExitStack() as closing:  # closes all databases, even if a close fails
            for database in databases.values():
                closing.callback(database.close)
