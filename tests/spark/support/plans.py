"""Plans of reads by the options' names, without the arguments that a test does not set."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kstore_core.spark.read import changes, plan, streams_dir
from kstore_core.spark.read.plan import ReadPlan, View
from kstore_core.spark.read.selection import select
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec

__all__ = ["plan_changes", "plan_store", "plan_streams_dir"]


def plan_store(home: Root, manifest: Manifest, spec: StoreSpec, **options: Any) -> ReadPlan:
    view = _view(options)
    return plan.plan_store(home, manifest, spec, select(spec, **options), view)


def plan_streams_dir(path: str, spec: StoreSpec, **options: Any) -> ReadPlan:
    view = _view(options)
    return streams_dir.plan_streams_dir(path, spec, select(spec, **options), view)


def plan_changes(
    home: Root, old: int, new: int | None, spec: StoreSpec | None = None, **options: Any
) -> ReadPlan:
    return changes.plan_changes(home, old, new, View(**options), spec)


def _view(options: dict[str, Any]) -> View:
    names = [field.name for field in fields(View) if field.name in options]
    return View(**{name: options.pop(name) for name in names})
