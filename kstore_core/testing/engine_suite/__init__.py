"""The engine suite: every sentence of :mod:`kstore_core.engine` that can be tested, tested."""

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


# pytest runs the tests of the last part first: simple promises, then whole lives.
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
    """What every engine promises. Derive a class whose name begins with ``Test``.

    ::

        class TestMyEngine(EngineSuite):
            def make_engine(self):
                return MyEngine()

    What an engine cannot do is read from its ``capabilities``; the suite then holds it to a
    refusal instead. ``variants`` runs everything again with other options; ``lives`` is how many
    random lives a database leads.
    """
