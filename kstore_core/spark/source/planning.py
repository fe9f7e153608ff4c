"""Functions that make the plan of a read from the options of ``format("kstore")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError
from kstore_core.spark.read.plan import ReadPlan, View, plan_store
from kstore_core.spark.read.selection import Selection, select
from kstore_core.spark.root.finding import find_root, roots_at
from kstore_core.spark.root.manifest import manifest_spec
from kstore_core.spark.source.options import CHANGES, META, STREAMS, ReadOptions, read_options
from kstore_core.spark.source.parsing import STORAGE
from kstore_core.spark.source.texts import key_of, key_of_json, prefix_of
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["only", "plan_of"]


def plan_of(given: Mapping[str, str]) -> ReadPlan:
    """Return the plan of a read with the options ``given``.

    Raise a SpecError if an option is unknown or has a wrong value. Raise a StateError if the store
    or the version does not exist.
    """
    asked = read_options(given)
    values = dict(asked.values)
    if asked.mode == STREAMS:
        return _streams(asked, values)
    if asked.mode == META:
        from kstore_core.spark.read.metadata import plan_metadata

        roots = roots_at(asked.path, values.pop("store", None), asked.storage)
        return plan_metadata(roots, values["metadata"], values.get("version"))
    root = find_root(asked.path, values.pop("store", None), asked.storage)
    if asked.mode == CHANGES:
        from kstore_core.spark.read.changes import plan_changes

        if "from_version" not in values:
            raise SpecError(
                "changes=true needs the option from_version; pass the older version, or 0 for the "
                "empty store"
            )
        view, versions = _view(values), (values["from_version"], values.get("to_version"))
        return plan_changes(root, *versions, view, values.get("spec"))
    manifest = root.load(values.pop("version", None))
    spec = manifest_spec(manifest, values.pop("spec", None), str(root))
    view = _view(values)
    return plan_store(root, manifest, spec, _selected(spec, values), view)


def _view(values: dict[str, Any]) -> View:
    """Remove the options on columns and partitions from ``values``, and return them as a View."""
    names = [field.name for field in fields(View) if field.name in values]
    return View(**{name: values.pop(name) for name in names})


def _selected(spec: StoreSpec, values: dict[str, Any]) -> Selection:
    """Return the selection of records that the options in ``values`` describe."""
    for option, name in (("from", "from_ts"), ("to", "to_ts")):
        if option in values:
            values[name] = values.pop(option)
    if "key" in values and "keys" in values:
        raise SpecError("the options key and keys cannot be combined; pass only one of them")
    if "key" in values:
        values["keys"] = [key_of(spec, values.pop("key"))]
    elif "keys" in values:
        values["keys"] = [key_of_json(spec, key) for key in values["keys"]]
    if "prefix" in values:
        values["prefix"] = prefix_of(spec, values["prefix"])
    return select(spec, **values)


def _streams(asked: ReadOptions, values: dict[str, Any]) -> ReadPlan:
    from kstore_core.spark.read.streams_dir import plan_streams_dir

    if asked.storage:
        raise SpecError(
            "kstore can read the state directory of a Kafka Streams application only from a disk; "
            f"leave out the options {', '.join(STORAGE + name for name in asked.storage)}"
        )
    spec = values.pop("spec", None)
    if spec is None:
        raise SpecError(
            "the state directory of a Kafka Streams application does not describe its stores; "
            "describe the store with the option spec"
        )
    view = _view(values)
    return plan_streams_dir(asked.path, spec, _selected(spec, values), view)


def only(plan: ReadPlan, schema: StructType) -> ReadPlan:
    """Return a copy of ``plan`` that reads only the columns of ``schema``.

    Raise a SpecError if the read does not return a column of ``schema``, or returns the column with
    another type.
    """
    import pyarrow as pa

    from kstore_core.spark.shards.frames import spark_type

    there = {field.name: field for field in plan.task.schema}
    chosen = []
    for field in schema:
        found = there.get(field.name)
        if found is None or spark_type(found.type).simpleString() != field.dataType.simpleString():
            has = ", ".join(f"{f.name} {spark_type(f.type).simpleString()}" for f in there.values())
            raise SpecError(
                f"the given schema has a column {field.name} {field.dataType.simpleString()}, "
                f"but the read returns: {has}. Leave out .schema(), or name only these columns"
            )
        chosen.append(found)
    if pa.schema(chosen).equals(plan.task.schema):
        return plan
    return replace(plan, task=replace(plan.task, schema=pa.schema(chosen)))  # type: ignore[type-var]
