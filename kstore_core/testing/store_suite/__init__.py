"""The tests of every kind of store on an engine."""

from __future__ import annotations

from kstore_core.testing.store_suite.committing import CommitPromises
from kstore_core.testing.store_suite.key_value import KeyValuePromises
from kstore_core.testing.store_suite.lives import LifePromises
from kstore_core.testing.store_suite.session import SessionPromises
from kstore_core.testing.store_suite.upgrading import UpgradePromises
from kstore_core.testing.store_suite.versioned import VersionedPromises
from kstore_core.testing.store_suite.window import WindowPromises

__all__ = ["StoreSuite"]


# pytest runs the tests of the last base first: simple promises, then random sequences.
class StoreSuite(
    LifePromises,
    UpgradePromises,
    CommitPromises,
    SessionPromises,
    WindowPromises,
    VersionedPromises,
    KeyValuePromises,
):
    """The tests of every kind of store on an engine. Derive a class named ``Test…``.

    ::

        class TestStoresOnMyEngine(StoreSuite):
            def make_engine(self):
                return MyEngine()

    The suite tests the kinds of :mod:`kstore_core.testing.kinds` and all upgrades between formats.
    If an engine passes :class:`~kstore_core.testing.EngineSuite` but fails in this suite, kstore is
    faulty or a test is missing in EngineSuite.
    """
