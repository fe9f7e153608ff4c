"""DataFrames of the metadata in the manifests of partitioned stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.checks import check_choice
from kstore_core.spark.read.batches import batches
from kstore_core.spark.read.plan import ReadPlan
from kstore_core.spark.root.finding import roots_at
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.shards.frames import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["What", "metadata_table", "plan_metadata", "read_metadata"]

What = Literal["stores", "shards", "versions", "offsets", "files"]
_Row = dict[str, Any]


def read_metadata(
    spark: SparkSession,
    root: str | os.PathLike[str],
    what: What = "shards",
    *,
    version: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Read metadata from the manifests of a store, or of all stores directly below a directory.

    The function opens no shard.

    Parameters
    ----------
    spark : SparkSession
        The session that creates the DataFrame.
    root : path or address
        The root of a store, or a directory that contains the roots of several stores.
    what : {"stores", "shards", "versions", "offsets", "files"}
        The content of a row. A row describes a store, a shard, a published version, the last
        offset of a source partition in a shard, or a file of a shard.
    version : int, optional
        The version of the store to describe. If None, the rows describe the newest version, or all
        versions if ``what`` is ``"versions"``.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    DataFrame
        The rows that ``what`` selects; docs/spark.md lists the columns.

    Raises
    ------
    SpecError
        ``what`` is not one of the choices.
    StateError
        There is no store at ``root``, or a store has no version ``version``.
    """
    table = on_server(spark, _table, os.fspath(root), storage_options or {}, what, version)
    return spark.createDataFrame(table, spark_schema(table.schema))


def _table(
    path: str, storage_options: Mapping[str, Any], what: str, version: int | None
) -> pa.Table:
    return metadata_table(roots_at(path, None, storage_options), what, version)


def plan_metadata(roots: Sequence[Root], what: str, version: int | None) -> ReadPlan:
    """Return the plan of a read of metadata. Its only part is the table of the metadata."""
    table = metadata_table(roots, what, version)
    return ReadPlan(TableTask(table.schema), (table,))


@dataclass(frozen=True, slots=True)
class TableTask:
    """The task that returns some columns of a table. The table is the only part of the plan."""

    schema: pa.Schema

    def read(self, part: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the table ``part`` in batches."""
        yield from batches(part.select(self.schema.names))


def metadata_table(roots: Sequence[Root], what: str, version: int | None = None) -> pa.Table:
    """Return the table that :func:`read_metadata` returns, for several roots."""
    import pyarrow as pa

    check_choice("metadata", what, _ROWS)
    found = [row for root in roots for row in _ROWS[what](root, version)]
    return pa.Table.from_pylist(found, _schema(what))


def _stores(root: Root, version: int | None) -> Iterator[_Row]:
    manifest = root.load(version)
    spec = manifest.spec
    yield _of_version(manifest) | {
        "root": str(root),
        "shape": spec["shape"],
        "format": spec["format"],
        "key": spec["key"],
        "value": spec["value"],
        "retention_ms": spec.get("history_retention_ms", spec.get("retention_ms")),
        "window_size_ms": spec.get("window_size_ms"),
        "versions": len(root.versions()),
        "stream_time": _millis(max((s.stream_time for s in manifest.shards), default=-1)),
    }


def _versions(root: Root, version: int | None) -> Iterator[_Row]:
    for number in root.versions() if version is None else [version]:
        manifest = root.load(number)
        yield _of_version(manifest) | {
            "mode": manifest.mode,
            "job": manifest.job,
            "written_by": manifest.written_by,
            "records": manifest.records,
            "late": manifest.late,
        }


def _of_shard(manifest: Manifest, shard: Shard) -> _Row:
    return {"store": manifest.spec["name"], "version": manifest.version, "shard": shard.shard}


def _shards(root: Root, version: int | None) -> Iterator[_Row]:
    manifest = root.load(version)
    for shard in manifest.shards:
        yield _of_shard(manifest, shard) | {
            "path": shard.path,
            "rows": shard.rows,
            "bytes": shard.bytes,
            "files": len(shard.files),
            "records": shard.records,
            "late": shard.late,
            "replayed": shard.replayed,
            "stream_time": _millis(shard.stream_time),
        }


def _offsets(root: Root, version: int | None) -> Iterator[_Row]:
    manifest = root.load(version)
    for shard in manifest.shards:
        for source in shard.offsets:
            yield _of_shard(manifest, shard) | {
                "topic": source.topic,
                "partition": source.partition,
                "offset": source.offset,
            }


def _files(root: Root, version: int | None) -> Iterator[_Row]:
    manifest = root.load(version)
    for shard in manifest.shards:
        for file in shard.files:
            yield _of_shard(manifest, shard) | {
                "path": shard.place_of(file),
                "bytes": file.bytes,
                "sha256": file.sha256,
            }


def _of_version(manifest: Manifest) -> _Row:
    return {
        "store": manifest.spec["name"],
        "version": manifest.version,
        "created": _millis(manifest.created_ms),
        "engine": manifest.engine,
        "partitions": manifest.partitions,
        "rows": sum(shard.rows for shard in manifest.shards),
        "bytes": manifest.bytes,
    }


def _millis(time: int) -> int | None:
    """Convert a time from ms to microseconds, at most the greatest int64.

    Return None for a negative time.
    """
    return None if time < 0 else min(time * 1000, _LAST)


_ROWS: dict[str, Callable[[Root, int | None], Iterator[_Row]]] = {
    "stores": _stores,
    "shards": _shards,
    "versions": _versions,
    "offsets": _offsets,
    "files": _files,
}

_LAST = 2**63 - 1

_OF_VERSION = "store version created engine partitions rows bytes"
_COLUMNS = {
    "stores": f"{_OF_VERSION} root shape format key value retention_ms window_size_ms versions "
    "stream_time",
    "versions": f"{_OF_VERSION} mode job written_by records late",
    "shards": "store version shard path rows bytes files records late replayed stream_time",
    "offsets": "store version shard topic partition offset",
    "files": "store version shard path bytes sha256",
}
_LONGS = frozenset(
    ("version", "versions", "rows", "bytes", "files", "records", "late", "replayed", "offset")
)
_INTS = frozenset(("shard", "partition", "partitions"))
_TIMES = frozenset(("created", "stream_time"))


def _schema(what: str) -> pa.Schema:
    """Return the schema of the table that ``what`` selects."""
    import pyarrow as pa

    from kstore_core.spark.columns.arrow import TIMESTAMP

    def kind(name: str) -> pa.DataType:
        if name in _TIMES:
            return TIMESTAMP
        if name in _LONGS or name.endswith("_ms"):
            return pa.int64()
        return pa.int32() if name in _INTS else pa.string()

    return pa.schema([(name, kind(name)) for name in _COLUMNS[what].split()])
