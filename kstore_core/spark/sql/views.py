"""The function register_views, which registers temporary views of stores."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore_core.checks import check_choice
from kstore_core.errors import SpecError
from kstore_core.spark.read.changes import read_changes
from kstore_core.spark.read.metadata import What, read_metadata
from kstore_core.spark.read.read_store import Timestamps, read_store
from kstore_core.spark.read.selection import select
from kstore_core.spark.root.finding import roots_at
from kstore_core.spark.root.manifest import Manifest, manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.source.parsing import STORAGE
from kstore_core.spec import StoreSpec
from kstore_core.types import Time, to_millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["register_views"]

_METADATA = ("shards", "versions", "offsets", "files")


def register_views(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    prefix: str = "",
    as_of: Time | None = None,
    changes_from: int | None = None,
    metadata: Iterable[What] = (),
    timestamps: Timestamps = "timestamp",
    version: int | None = None,
    replace: bool = True,
    specs: Iterable[StoreSpec] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Register temporary views of a store, or of all stores directly below a directory.

    The name of a view is ``prefix``, the name of the store, and a suffix. In the name of the store,
    each character that is not an ASCII letter, a digit or an underscore becomes an underscore.

    ============================  =================================================================
    suffix                        rows
    ============================  =================================================================
    none                          the records, or the latest versions of a versioned store
    ``_history``                  all versions of a versioned store
    ``_changes``                  the changes since the version ``changes_from``, if it is given
    ``_shards``, ``_versions``,   the tables of :func:`read_metadata` that ``metadata`` names
    ``_offsets``, ``_files``
    ============================  =================================================================

    The view ``_versions`` lists all versions that exist at the time of the call. All other views
    read the version ``version``, or the newest version at the time of the call. Call the function
    again to see newer records.

    Parameters
    ----------
    spark : SparkSession
        The session in which the views are registered.
    root : path or address
        The root of a store, or a directory that contains the roots of several stores.
    prefix : str
        The beginning of the name of each view.
    as_of : int or datetime, optional
        If given, the view without suffix has the versions that were valid at this time.
    changes_from : int, optional
        The version of the store from which the view ``_changes`` starts; 0 means an empty store.
    metadata : iterable of {"shards", "versions", "offsets", "files"}
        The tables of metadata for which views are registered.
    timestamps : {"timestamp", "millis"}
        The type of the columns of times in the views of records and of changes.
    version : int, optional
        The version of the store to read; the newest version if None.
    replace : bool
        If true, replace temporary views with the same names. If false, raise a SpecError, and
        register no view, if a view or a table with one of the names exists.
    specs : iterable of StoreSpec
        The specs of the stores whose serdes are not built in.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    tuple of str
        The names of the views.

    Raises
    ------
    StateError
        There is no store at ``root``, or a store has no version ``version`` or ``changes_from``.
    SpecError
        Two views would have the same name; a name is not an identifier; a view exists and
        ``replace`` is false; a serde is unknown and ``specs`` has no spec of the store; ``specs``
        has a spec of another store; or an argument has an unknown value.
    UnsupportedError
        ``as_of`` is given and a store is not versioned, or the changes cannot be computed.
    ValueError
        ``as_of`` is a naive datetime.
    """
    metadata = tuple(metadata)
    for what in metadata:
        check_choice("metadata", what, _METADATA)
    found = on_server(spark, _found, os.fspath(root), storage_options or {}, version)
    given = {spec.name: spec for spec in specs}
    unknown = given.keys() - {manifest.spec["name"] for _, manifest in found}
    if unknown:
        raise SpecError(
            f"{root} has no store {', '.join(sorted(unknown))}, but specs has a spec of it; the "
            f"stores are {', '.join(sorted(manifest.spec['name'] for _, manifest in found))}"
        )
    views: dict[str, Callable[[], DataFrame]] = {}
    for at, manifest in found:
        store = _Store(spark, str(at), manifest, given.get(manifest.spec["name"]), storage_options)
        select(store.stored_spec, as_of)
        for suffix, frame in store.frames(as_of, changes_from, metadata, timestamps).items():
            name = prefix + re.sub(r"[^0-9A-Za-z_]", "_", store.stored_spec.name) + suffix
            if not re.fullmatch(r"[A-Za-z_][0-9A-Za-z_]*", name):
                raise SpecError(
                    f"{name!r} is not the name of a view; pass a prefix that begins with a letter "
                    "and has only letters, digits and underscores"
                )
            if name.lower() in (other.lower() for other in views):
                raise SpecError(
                    f"two views would have the name {name!r}; register each store by its own root, "
                    "with different prefixes"
                )
            views[name] = frame
    if not replace:
        there = [name for name in views if spark.catalog.tableExists(name)]
        if there:
            raise SpecError(
                f"there is already a view or table {there[0]!r}; pass another prefix, or "
                "replace=True"
            )
    frames = {name: frame() for name, frame in views.items()}
    for name, df in frames.items():
        df.createOrReplaceTempView(name)
    return tuple(frames)


def _found(
    path: str, storage_options: Mapping[str, Any], version: int | None
) -> list[tuple[Root, Manifest]]:
    roots = roots_at(path, None, storage_options)
    return [(root, root.load(version)) for root in roots]


@dataclass(frozen=True, slots=True)
class _Store:
    """A version of a store for which views are registered."""

    spark: SparkSession
    root: str
    manifest: Manifest
    spec: StoreSpec | None  # the spec that the caller has given
    storage_options: Mapping[str, Any] | None

    @property
    def stored_spec(self) -> StoreSpec:
        return manifest_spec(self.manifest, self.spec, self.root)

    def frames(
        self,
        as_of: Time | None,
        changes_from: int | None,
        metadata: Iterable[What],
        timestamps: Timestamps,
    ) -> dict[str, Callable[[], DataFrame]]:
        """Return functions that create the DataFrames of the views, by the views' suffixes."""
        frames: dict[str, Callable[[], DataFrame]] = {
            "": partial(self._records, as_of, history=False, timestamps=timestamps)
        }
        if self.stored_spec.format.versioned:
            frames["_history"] = partial(self._records, None, history=True, timestamps=timestamps)
        version, storage = self.manifest.version, self.storage_options
        if changes_from is not None:
            frames["_changes"] = partial(
                read_changes,
                self.spark,
                self.root,
                changes_from,
                version,
                timestamps=timestamps,
                spec=self.spec,
                storage_options=storage,
            )
        for what in metadata:
            pinned = None if what == "versions" else version
            frames[f"_{what}"] = partial(
                read_metadata, self.spark, self.root, what, version=pinned, storage_options=storage
            )
        return frames

    def _records(self, as_of: Time | None, *, history: bool, timestamps: Timestamps) -> DataFrame:
        """Return the records. If options can describe the read, the data source reads them.

        Spark can push filters down to the data source only.
        """
        version = self.manifest.version
        storage = self.storage_options or {}
        if self.spec is not None or not all(isinstance(value, str) for value in storage.values()):
            return read_store(
                self.spark,
                self.root,
                as_of=as_of,
                history=history,
                timestamps=timestamps,
                version=version,
                spec=self.spec,
                storage_options=storage,
            )
        options = {f"{STORAGE}{name}": value for name, value in storage.items()}
        options |= {"version": str(version), "timestamps": timestamps}
        if history:
            options["history"] = "true"
        if as_of is not None:
            options["as_of"] = str(to_millis(as_of))
        return self.spark.read.format("kstore").options(**options).load(self.root)
