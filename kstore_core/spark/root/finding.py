"""The roots at a path: the one that it is, or those of the directories below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstore_core.errors import StateError
from kstore_core.spark.root.root import MANIFESTS, Root

__all__ = ["find_root", "roots_at"]


def find_root(path: str, store: str | None, storage: Mapping[str, Any]) -> Root:
    """The root at ``path``, or of the store of this name in a directory of its own below it.

    Raises
    ------
    StateError
        There is none, or there are several and none is named.
    """
    roots = roots_at(path, store, storage)
    if len(roots) > 1:
        names = ", ".join(str(root).rstrip("/").rsplit("/", 1)[-1] for root in roots)
        raise StateError(f"{path} holds several stores: {names}. Choose one by the option store")
    return roots[0]


def roots_at(path: str, store: str | None, storage: Mapping[str, Any]) -> list[Root]:
    """The roots at ``path``: itself, or those directly below it.

    Raises
    ------
    StateError
        There is none, or none of a store of this name.
    """
    here = Root.at(path, storage)
    if here.versions():
        if store is not None and store != (name := here.load().spec["name"]):
            raise StateError(f"{here} holds the store {name!r}, not {store!r}")
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
            f"{here} holds {what}: there is no manifest in {here}/{MANIFESTS}, nor in a directory "
            "below. Write one with kstore_core.spark.write_store"
        )
    return list(roots.values())


def _is_root(root: Root) -> bool:
    """Whether it holds a version; a file that lies beside stores does not."""
    try:
        return bool(root.versions())
    except StateError:
        return False
