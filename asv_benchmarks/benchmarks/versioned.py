"""Versioned stores, compared with the bare engine's reads and writes of the same rows."""

from __future__ import annotations

from .sizes import sized
from .workloads import ENGINES, VERSIONED, VersionedWorkload, ratio, seconds

COUNT = sized(50_000)


class Ratios:
    """50,000 versions of 5,000 keys, a tenth of them late, and 10,000 reads as of a time."""

    params = (ENGINES, tuple(VERSIONED))
    param_names = ("engine", "format")
    unit = "ratio"
    timeout = 300

    def setup(self, engine: str, format_name: str) -> None:
        self.work = VersionedWorkload(engine, format_name, COUNT)

    def teardown(self, engine: str, format_name: str) -> None:
        self.work.close()

    def track_put_and_commit(self, engine: str, format_name: str) -> float:
        return put_ratio(self.work)

    def track_get_as_of(self, engine: str, format_name: str) -> float:
        return ratio(self.work.get_as_of, self.work.raw_get_as_of)


def put_ratio(work: VersionedWorkload, rounds: int = 3) -> float:
    ours, theirs = [], []
    for _ in range(rounds):
        work.put_and_commit()
        ours.append(work.seconds)
        theirs.append(seconds(work.raw_put))
    return min(ours) / min(theirs)
