"""Behind a state directory's back: the database of one of its stores."""

import contextlib

from kstore_core.discovery.registry import make_engine


@contextlib.contextmanager
def database_of(home, store, **arguments):
    """The database of ``store`` while no state directory has it open."""
    engine = home._kept or make_engine(home.engine)
    database = engine.open(home.path, store, **arguments)
    try:
        yield database
    finally:
        database.close()
