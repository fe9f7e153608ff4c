"""Window and session stores: each figure beside the bare engine, on the same rows in turns.

What the bare engine does is in :mod:`.bare_segments`: for a key's rows a seek and a scan in each
segment that holds some.
"""

from __future__ import annotations

from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.errors import EngineUnavailableError

from .segmented import SegmentedWorkload, make_workload

KINDS = ("window headers", "session headers")
"""Those that do the most work; ``ratios.py`` measures the other formats too."""
ENGINES = tuple(dict.fromkeys(engine.name for engine in installed_engines()))


class Ratios:
    """The store's time over the bare engine's; nan where there is no binding to compare with."""

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
        """``fetch_one`` and ``fetch_session``."""
        return self.work.get_ratio()

    def track_fetch(self, engine: str, kind: str) -> float:
        """All windows or sessions of a key."""
        return self.work.fetch_ratio()

    def track_all(self, engine: str, kind: str) -> float:
        return self.work.all_ratio()

    def track_put_and_fetch_in_turn(self, engine: str, kind: str) -> float:
        """A put followed by a fetch of its key, over the two apart."""
        return self.work.in_turn_ratio()
