"""The roots at a path: the path itself, or directories directly below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstore_core.errors import StateError
from kstore_core.spark.root.root import MANIFESTS, Root

__all__ = ["find_root", "roots_at"]


def find_root(path: str, store: str | None, storage: Mapping[str, Any]) -> Root:
    """Return the root at ``path``, or the root of ``store`` directly below it.

    A StateError if there is none, or there are several and ``store`` is None.
    """
    roots = roots_at(path, store, storage)
    if len(roots) > 1:
        names = ", ".join(str(root).rstrip("/").rsplit("/", 1)[-1] for root in roots)
        raise StateError(f"{path} has several stores: {names}. Choose one with the option store")
    return roots[0]


def roots_at(path: str, store: str | None, storage: Mapping[str, Any]) -> list[Root]:
    """The root at ``path``, or the roots directly below it; only those of ``store`` if given.

    A StateError if there is none.
    """
    here = Root.at(path, storage)
    if here.versions():
        if store is not None and store != (name := here.load().spec["name"]):
            raise StateError(f"{here} has the store {name!r}, not {store!r}")
        return [here]
    found = {
        name: Root.at(f"{here.name.rstrip('/')}/{name}", storage)
        for name in here.storage.names("")
        if name != MANIFESTS
    }
    roots = {name: root for name, root in found.items() if _is_root(root)}
    if store is not None:
        roots = {
            name: root
            for name, root in roots.items()
            if store == name or store == root.load().spec["name"]
        }
    if not roots:
        what = "no store" if store is None else f"no store {store!r}"
        raise StateError(
            f"{here} has {what}: there is no manifest in {here}/{MANIFESTS}, nor in a directory "
            "below. Write a store with kstore_core.spark.write_store"
        )
    return list(roots.values())


def _is_root(root: Root) -> bool:
    """Return True if there is a version; False also for a file beside stores."""
    try:
        return bool(root.versions())
    except StateError:
        return False
