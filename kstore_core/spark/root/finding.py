"""The search for the roots of stores in a directory, and in the directories directly below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstore_core.errors import StateError
from kstore_core.spark.root.root import MANIFESTS, Root

__all__ = ["find_root", "roots_at"]


def find_root(path: str, store: str | None, storage: Mapping[str, Any]) -> Root:
    """Return the root at ``path``, or the root of ``store`` directly below ``path``.

    Raise a StateError if there is no root, or if ``store`` is None and there are several roots.
    """
    roots = roots_at(path, store, storage)
    if len(roots) > 1:
        names = ", ".join(str(root).rstrip("/").rsplit("/", 1)[-1] for root in roots)
        raise StateError(
            f"{path} has several stores: {names}. Select the store with the option store"
        )
    return roots[0]


def roots_at(path: str, store: str | None, storage: Mapping[str, Any]) -> list[Root]:
    """Return the root at ``path``, or the roots directly below ``path``.

    If ``store`` is given, return only roots whose directory or store has this name. Raise a
    StateError if there is no such root.
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
            f"below {here}. Write a store with kstore_core.spark.write_store"
        )
    return list(roots.values())


def _is_root(root: Root) -> bool:
    """Return True if the root has a version; return False for a file."""
    try:
        return bool(root.versions())
    except StateError:
        return False
