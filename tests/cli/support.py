"""Terminals and databases for the tests of the commands."""

import os
from contextlib import closing, suppress

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows


def read_terminal(reading):
    """Read what is written to a terminal until its last writer closes it, and close it."""
    found = b""
    with suppress(OSError):  # the end of a terminal, on Linux
        while piece := os.read(reading, 4096):
            found += piece
    os.close(reading)
    return found


def write_entries(root, engine, store, entries):
    """Write entries to the namespace ``offsets`` of each database of a store; None removes one."""
    made = make_engine(engine)
    names = made.children(root, store) if store in made.parents(root) else [None]
    for name in names:
        opened = made.open(root, store) if name is None else made.open_child(root, store, name)
        with closing(opened) as database:
            database.namespace("offsets")
            database.write({"offsets": Rows(list(entries), list(entries.values()))})
