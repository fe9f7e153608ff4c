"""The engine suite: every sentence of :mod:`kstore_core.engine` that can be tested, tested."""

from __future__ import annotations

from kstore_core.testing.engine_suite.batches import BatchPromises
from kstore_core.testing.engine_suite.checkpoints import CheckpointPromises
from kstore_core.testing.engine_suite.children import ChildPromises
from kstore_core.testing.engine_suite.closing import ClosePromises
from kstore_core.testing.engine_suite.limits import LimitPromises
from kstore_core.testing.engine_suite.lives import LifePromises
from kstore_core.testing.engine_suite.loads import LoadPromises
from kstore_core.testing.engine_suite.lookups import LookupPromises
from kstore_core.testing.engine_suite.namespaces import NamespacePromises
from kstore_core.testing.engine_suite.opening import OpenPromises, ReadOnlyPromises
from kstore_core.testing.engine_suite.power import PowerPromises
from kstore_core.testing.engine_suite.processes import ProcessPromises
from kstore_core.testing.engine_suite.recognising import RecognitionPromises
from kstore_core.testing.engine_suite.scans import ScanPromises
from kstore_core.testing.engine_suite.snapshots import SnapshotPromises
from kstore_core.testing.engine_suite.threads import ThreadPromises

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
