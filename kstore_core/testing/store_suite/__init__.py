"""The store suite: every kind of store that exists, on an engine."""

from __future__ import annotations

from kstore_core.testing.store_suite.committing import CommitPromises
from kstore_core.testing.store_suite.key_value import KeyValuePromises
from kstore_core.testing.store_suite.lives import LifePromises
from kstore_core.testing.store_suite.session import SessionPromises
from kstore_core.testing.store_suite.upgrading import UpgradePromises
from kstore_core.testing.store_suite.versioned import VersionedPromises
from kstore_core.testing.store_suite.window import WindowPromises

__all__ = ["StoreSuite"]


# pytest runs the tests of the last part first: simple promises, then whole lives.
class StoreSuite(
    LifePromises,
    UpgradePromises,
    CommitPromises,
    SessionPromises,
    WindowPromises,
    VersionedPromises,
    KeyValuePromises,
):
    """What every kind of store promises on an engine. Derive a class named ``Test…``.

    ::

        class TestStoresOnMyEngine(StoreSuite):
            def make_engine(self):
                return MyEngine()

    The kinds are those of :mod:`kstore_core.testing.kinds`, the upgrades those that the formats
    name. Where an engine passes :class:`~kstore_core.testing.EngineSuite` a failure here is
    kstore's own, or a promise that the engine suite has forgotten.
    """
