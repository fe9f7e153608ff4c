"""The tests of the requirements that :mod:`kstore_core.engine` states for an engine."""

from __future__ import annotations

from kstore_core.testing.engine_suite.lifetime.checkpoints import CheckpointPromises
from kstore_core.testing.engine_suite.lifetime.children import ChildPromises
from kstore_core.testing.engine_suite.lifetime.closing import ClosePromises
from kstore_core.testing.engine_suite.lifetime.opening import OpenPromises, ReadOnlyPromises
from kstore_core.testing.engine_suite.lifetime.power import PowerPromises
from kstore_core.testing.engine_suite.lifetime.processes import ProcessPromises
from kstore_core.testing.engine_suite.lifetime.recognition import RecognitionPromises
from kstore_core.testing.engine_suite.lifetime.threads import ThreadPromises
from kstore_core.testing.engine_suite.rows.batches import BatchPromises
from kstore_core.testing.engine_suite.rows.limits import LimitPromises
from kstore_core.testing.engine_suite.rows.loads import LoadPromises
from kstore_core.testing.engine_suite.rows.lookups import LookupPromises
from kstore_core.testing.engine_suite.rows.namespaces import NamespacePromises
from kstore_core.testing.engine_suite.rows.scans import ScanPromises
from kstore_core.testing.engine_suite.rows.snapshots import SnapshotPromises
from kstore_core.testing.engine_suite.sequences import LifePromises

__all__ = ["EngineSuite"]


# pytest runs the tests of the last base first: simple promises, then random sequences.
class EngineSuite(
    LifePromises,
    ChildPromises,
    RecognitionPromises,
    PowerPromises,
    ProcessPromises,
    ThreadPromises,
    LimitPromises,
    ClosePromises,
    ReadOnlyPromises,
    OpenPromises,
    CheckpointPromises,
    SnapshotPromises,
    NamespacePromises,
    LoadPromises,
    BatchPromises,
    ScanPromises,
    LookupPromises,
):
    """The tests that every engine must pass. Derive a class whose name begins with ``Test``.

    ::

        class TestMyEngine(EngineSuite):
            def make_engine(self):
                return MyEngine()

    If the ``capabilities`` of an engine exclude a call, the suite expects that the call raises an
    error. The whole suite runs again for each of the options in the attribute ``variants``. The
    attribute ``lives`` is the number of random sequences of calls.
    """
