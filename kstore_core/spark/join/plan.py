"""What is checked and decided on the driver before a join runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.join.versions import Source
from kstore_core.spark.read.read_store import manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import headers_type, shard_column, spark_type
from kstore_core.spark.shards.routing import route_to_shards
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "How",
    "OnExpired",
    "PartitionBy",
    "check_choice",
    "check_columns",
    "check_size",
    "placed",
    "source_at",
    "under",
    "unmistakable",
    "versions_schema",
]

How = Literal["left", "inner"]
OnExpired = Literal["null", "error"]
PartitionBy = Literal["key", "partition"]


def source_at(
    home: Root,
    spec: StoreSpec | None,
    version: int | None,
    *,
    headers: bool,
    broadcast_bytes: int,
    cache_bytes: int,
    follow: bool = False,
) -> Source:
    """The store to look into, after a look at its manifest.

    Raises
    ------
    StateError
        There is no manifest, or not that version.
    SpecError
        ``spec`` is another store's, or needed and missing.
    UnsupportedError
        The store keeps no history.
    """
    from kstore_core.spark.shards.published import ShardReader

    check_size("broadcast_bytes", broadcast_bytes)
    check_size("cache_bytes", cache_bytes)
    manifest = home.load(version)
    spec = manifest_spec(manifest, spec, str(home))
    if not spec.format.versioned:
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which keeps no history; "
            "join what read_store gives with DataFrame.join"
        )
    return Source(
        ShardReader(home, spec, manifest.engine),
        manifest.shards,
        manifest.version,
        headers=headers and spec.format.headers,
        everywhere=manifest.bytes <= min(broadcast_bytes, cache_bytes),
        cache_bytes=cache_bytes,
        follow=follow,
    )


def check_choice(name: str, given: Any, choices: Sequence[str]) -> None:
    """Refuse a word that is none of those there are."""
    if given not in choices:
        raise ValueError(f"{name}={given!r}; there are: {', '.join(map(repr, choices))}")


def check_size(name: str, given: Any, what: str = "bytes") -> None:
    """Refuse what is no count.

    Raises
    ------
    TypeError
        It is not an int.
    ValueError
        It is negative.
    """
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{name}={given!r} is {type(given).__name__}, not int; pass whole {what}")
    if given < 0:
        raise ValueError(f"{name}={given}; it is 0 or more")


def check_columns(df: DataFrame, allowed: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a DataFrame in which a column is missing, there twice, or of a type not allowed.

    Raises
    ------
    SpecError
    """
    names = df.columns
    for name, kinds in allowed.items():
        if names.count(name) != 1:
            there = "two columns" if name in names else "no column"
            raise SpecError(f"the DataFrame has {there} {name!r}; it has: {', '.join(names)}")
        kind = df.schema[name].dataType.simpleString()
        if kind not in kinds:
            wanted = " or ".join(dict.fromkeys(kinds))
            raise SpecError(f"the column {name!r} is {kind}, not {wanted}")


def versions_schema(source: Source, time: DataType, prefix: str) -> StructType:
    """The columns that a version brings."""
    from pyspark.sql.types import StructType

    added = StructType()
    added.add(f"{prefix}value", spark_type(source.reader.spec.value.arrow_type))
    added.add(f"{prefix}timestamp", time).add(f"{prefix}valid_to", time)
    if source.headers:
        added.add(f"{prefix}headers", headers_type())
    return added


def unmistakable(names: Sequence[str]) -> tuple[str, ...]:
    """Names by which Spark resolves each column: the given ones, or their places instead.

    It resolves a name with a dot as a field, and none that is there twice.
    """
    plain = len({name.lower() for name in names}) == len(names)
    if plain and not any(mark in name for name in names for mark in ".`"):
        return tuple(names)
    return tuple(f"column{place}" for place in range(len(names)))


def under(schema: StructType, names: Sequence[str]) -> StructType:
    """A schema under other names."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(names, schema.fields, strict=True)
        ]
    )


def placed(df: DataFrame, source: Source, key: int, by: int | None = None) -> DataFrame:
    """The rows where their versions are: anywhere, or each shard's in the task of its number.

    Brought to a shard, rows have its number as a further, last column.

    Parameters
    ----------
    df : DataFrame
        Under unmistakable names.
    source : Source
    key : int
        The place of the key's column.
    by : int, optional
        The place of the column that says the shard, where it is not the key that does.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if source.everywhere:
        return df
    shards = len(source.shards)
    if by is None:
        shard = shard_column(F.col(df.columns[key]), source.reader.spec.key, shards)
    else:
        shard = F.col(df.columns[by]).cast("int")
    return route_to_shards(df, shard, shards)
