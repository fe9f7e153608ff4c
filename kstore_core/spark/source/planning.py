"""From the options of ``format("kstore")`` to the plan of a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError
from kstore_core.spark.read.plan import ReadPlan, plan_store
from kstore_core.spark.read.read_store import manifest_spec
from kstore_core.spark.root.finding import find_root, roots_at
from kstore_core.spark.root.root import Root
from kstore_core.spark.source.options import CHANGES, META, STREAMS, ReadOptions, read_options
from kstore_core.spark.source.parsing import STORAGE
from kstore_core.spark.source.texts import key_of, key_of_json, prefix_of
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["only", "plan_of"]


def plan_of(given: Mapping[str, str]) -> ReadPlan:
    """The plan of a read with these options.

    Raises
    ------
    SpecError
        An unknown option, or a wrong value.
    StateError
        No such store, or no such version.
    """
    asked = read_options(given)
    if asked.mode == STREAMS:
        return _streams(asked)
    if asked.mode == META:
        return _metadata(asked)
    values = dict(asked.values)
    home = find_root(asked.path, values.pop("store", None), asked.storage)
    if asked.mode == CHANGES:
        return _changes(home, values)
    manifest = home.load(values.pop("version", None))
    spec = manifest_spec(manifest, values.pop("spec", None), str(home))
    return plan_store(home, manifest, spec, **_selected(spec, values))


def _selected(spec: StoreSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that select records, under their names in :func:`read_store`."""
    asked = dict(values)
    for option, name in (("from", "from_ts"), ("to", "to_ts")):
        if option in asked:
            asked[name] = asked.pop(option)
    if "key" in asked and "keys" in asked:
        raise SpecError("the options key and keys are two choices of keys; make one")
    if "key" in asked:
        asked["keys"] = [key_of(spec, asked.pop("key"))]
    elif "keys" in asked:
        asked["keys"] = [key_of_json(spec, key) for key in asked["keys"]]
    if "prefix" in asked:
        asked["prefix"] = prefix_of(spec, asked["prefix"])
    return asked


def _streams(asked: ReadOptions) -> ReadPlan:
    from kstore_core.spark.read.streams_dir import plan_streams_dir

    if asked.storage:
        raise SpecError(
            "the state directory of a Kafka Streams application is read where it lies, on a disk; "
            f"leave out the options {', '.join(STORAGE + name for name in asked.storage)}"
        )
    values = dict(asked.values)
    spec = values.pop("spec", None)
    if spec is None:
        raise SpecError(
            "the state directory of a Kafka Streams application does not describe its stores; pass "
            "the option spec"
        )
    return plan_streams_dir(asked.path, spec, **_selected(spec, values))


def _changes(home: Root, values: dict[str, Any]) -> ReadPlan:
    from kstore_core.spark.read.changes import plan_changes

    if "from_version" not in values:
        raise SpecError("changes=true goes with the option from_version; 0 stands for no store")
    return plan_changes(home, values.pop("from_version"), values.pop("to_version", None), **values)


def _metadata(asked: ReadOptions) -> ReadPlan:
    from kstore_core.spark.read.metadata import plan_metadata

    values = dict(asked.values)
    roots = roots_at(asked.path, values.pop("store", None), asked.storage)
    return plan_metadata(roots, values["metadata"], values.get("version"))


def only(plan: ReadPlan, schema: StructType) -> ReadPlan:
    """The plan of some columns; other columns or types are a SpecError."""
    import pyarrow as pa

    from kstore_core.spark.shards.frames import spark_type

    there = {field.name: field for field in plan.task.schema}
    fields = []
    for field in schema:
        found = there.get(field.name)
        if found is None or spark_type(found.type).simpleString() != field.dataType.simpleString():
            has = ", ".join(f"{f.name} {spark_type(f.type).simpleString()}" for f in there.values())
            raise SpecError(
                f"the schema given has a column {field.name} {field.dataType.simpleString()}; what "
                f"is read has: {has}. Leave out .schema(), or take some of these"
            )
        fields.append(found)
    if pa.schema(fields).equals(plan.task.schema):
        return plan
    return replace(plan, task=replace(plan.task, schema=pa.schema(fields)))  # type: ignore[type-var]
