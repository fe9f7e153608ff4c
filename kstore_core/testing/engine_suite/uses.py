"""All ways to use a database, for tests that each way raises a certain error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from kstore_core.engine import Chunk, Database, Rows
from kstore_core.testing.engine_suite.base import read

__all__ = ["every_use"]


def every_use(database: Database, target: Path) -> dict[str, Callable[[], object]]:
    """Return a dict of functions, each of which uses ``database`` in another way.

    The database must be open and have many rows. ``target`` is the path of a new checkpoint.
    """
    live = database.namespace("default")
    snapshot = database.snapshot()
    then = snapshot.namespace("default")
    scans = {
        "a scan that was begun": live.scan(),
        "a scan backwards that was begun": live.scan(reverse=True),
        "a scan within bounds": live.scan(b"0", b"9"),
        "a scan of a snapshot that was begun": then.scan(),
        "a scan of a snapshot": then.scan(reverse=True),
    }
    for name, scan in scans.items():
        if name.endswith("begun"):
            next(scan)
    get, get_many = live.get, live.get_many

    def rest(scan: Iterator[Chunk]) -> Callable[[], object]:
        return lambda: read(scan)

    return {
        "Namespace.get": lambda: live.get(b"k"),
        "a Namespace.get that was bound before": lambda: get(b"k"),
        "Namespace.get_many": lambda: live.get_many([b"k"]),
        "a Namespace.get_many that was bound before": lambda: get_many([b"k"]),
        "Namespace.scan": lambda: read(live.scan()),
        "Namespace.scan of an empty range": lambda: read(live.scan(b"b", b"a")),
        "Namespace.first": lambda: live.first(reverse=True),
        "Namespace.approximate_count": lambda: live.approximate_count(),
        "Namespace.get of a snapshot": lambda: then.get(b"k"),
        "Namespace.get_many of a snapshot": lambda: then.get_many([b"k"]),
        "Namespace.scan of a snapshot": lambda: read(then.scan()),
        "Namespace.first of a snapshot": lambda: then.first(),
        "Namespace.approximate_count of a snapshot": lambda: then.approximate_count(),
        "Snapshot.namespace": lambda: snapshot.namespace("default"),
        **{name: rest(scan) for name, scan in scans.items()},
        "Database.namespaces": lambda: database.namespaces(),
        "Database.namespace": lambda: database.namespace("default"),
        "Database.namespace of a new name": lambda: database.namespace("new"),
        "Database.drop_namespace": lambda: database.drop_namespace("offsets"),
        "Database.write": lambda: database.write({"default": Rows([b"k"], [b"v"])}),
        "Database.write of nothing": lambda: database.write({}),
        "Database.load": lambda: database.load("default", [([b"k"], [b"v"])]),
        "Database.snapshot": lambda: database.snapshot(),
        "Database.checkpoint": lambda: database.checkpoint(target),
        "Database.sync": lambda: database.sync(),
    }
