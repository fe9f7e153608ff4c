"""The search for the roots of stores in a directory, and in the directories directly below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstore_core.errors import StateError
from kstore_core.spark.root.root import MANIFESTS, Root

__all__ = ["find_root", "roots_at"]


def find_root(path: str, store: str | None, storage: Mapping[str, Any]) -> Root:
    """Return the root at ``path``, or the root of ``store`` directly below ``path``.

    Raise a StateError if there is no such root, or if there are several.
    """
    roots = roots_at(path, store, storage)
    if len(roots) > 1:
        names = ", ".join(str(root).rstrip("/").rsplit("/", 1)[-1] for root in roots)
        if store is None:
            raise StateError(
                f"{path} has several stores: {names}. Select the store with the option store"
            )
        raise StateError(
            f"{path} has several directories with a store {store!r}: {names}. Pass the path of one "
            "of these directories"
        )
    return roots[0]


def roots_at(path: str, store: str | None, storage: Mapping[str, Any]) -> list[Root]:
    """Return the root at ``path``, or the roots directly below ``path``.

    If ``store`` is given, return the root whose directory has this name. If there is none, return
    the roots whose stores have this name. Raise a StateError if there is no such root.
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
    if not roots:
        raise StateError(
            f"{here} has no store: there is no manifest in {here}/{MANIFESTS}, nor in a directory "
            f"below {here}. Write a store with kstore_core.spark.write_store"
        )
    if store is None:
        return list(roots.values())
    if store in roots:
        return [roots[store]]
    names, errors = {}, []
    for name, root in roots.items():
        try:
            names[name] = root.load().spec["name"]
        except StateError as error:
            errors.append(error)  # another store may be the one
    chosen = [roots[name] for name, of_store in names.items() if of_store == store]
    if not chosen and errors:
        raise errors[0]
    if not chosen:
        there = ", ".join(f"{name} (store {names[name]!r})" for name in sorted(names))
        raise StateError(f"{here} has no store {store!r}; it has the directories {there}")
    return chosen


def _is_root(root: Root) -> bool:
    """Return True if the root has a version; return False for a file."""
    try:
        return bool(root.versions())
    except StateError:
        return False
