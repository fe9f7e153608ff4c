"""Window and session stores, compared with the bare engine on the same rows in alternating runs.

:mod:`.bare_segments` has the work of the bare engine. To fetch the rows of a key, it makes a seek
and a scan in each segment that may contain such rows.
"""

from __future__ import annotations

from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.errors import EngineUnavailableError

from .segmented import SegmentedWorkload, make_workload

KINDS = ("window headers", "session headers")
"""The formats that need the most work. ``ratios.py`` measures the other formats, too."""
ENGINES = tuple(dict.fromkeys(engine.name for engine in installed_engines()))


class Ratios:
    """The store's time divided by the bare engine's time; nan without a binding."""

    params = (ENGINES, KINDS)
    param_names = ("engine", "kind")
    unit = "ratio"
    timeout = 300
    work: SegmentedWorkload

    def setup(self, engine: str, kind: str) -> None:
        try:
            engine_class(engine)
        except EngineUnavailableError as error:
            raise NotImplementedError from error  # asv skips it
        self.work = make_workload(engine, kind)

    def teardown(self, engine: str, kind: str) -> None:
        self.work.close()

    def track_put_and_commit(self, engine: str, kind: str) -> float:
        return self.work.put_ratio()

    def track_get(self, engine: str, kind: str) -> float:
        """Return the ratio of ``fetch_one`` or ``fetch_session``."""
        return self.work.get_ratio()

    def track_fetch(self, engine: str, kind: str) -> float:
        """Return the ratio of a fetch of all windows or sessions of a key."""
        return self.work.fetch_ratio()

    def track_all(self, engine: str, kind: str) -> float:
        return self.work.all_ratio()

    def track_put_and_fetch_in_turn(self, engine: str, kind: str) -> float:
        """Return the time of puts that are each followed by a fetch of the key, as a ratio.

        The time is divided by the time of all puts and then all fetches.
        """
        return self.work.in_turn_ratio()
