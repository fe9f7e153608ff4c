"""Key-value stores, compared with the bare engine on the same bytes in the same run."""

from __future__ import annotations

from .sizes import sized
from .workloads import ENGINES, KEY_VALUE, KeyValueWorkload, ratio, seconds

COUNT = sized(50_000)


class Suite:
    """A store and a bare engine with the same 50,000 rows of 16-byte keys and 100-byte values."""

    params = (ENGINES, tuple(KEY_VALUE))
    param_names = ("engine", "format")
    timeout = 300

    def setup(self, engine: str, format_name: str) -> None:
        self.work = KeyValueWorkload(engine, format_name, COUNT)

    def teardown(self, engine: str, format_name: str) -> None:
        self.work.close()


class Times(Suite):
    """The seconds for all rows."""

    number = 1

    def time_put_and_commit(self, engine: str, format_name: str) -> None:
        self.work.put_and_commit()

    def time_raw_put(self, engine: str, format_name: str) -> None:
        self.work.raw_put()

    def time_get(self, engine: str, format_name: str) -> None:
        self.work.get()

    def time_raw_get(self, engine: str, format_name: str) -> None:
        self.work.raw_get()

    def time_scan(self, engine: str, format_name: str) -> None:
        self.work.scan()

    def time_raw_scan(self, engine: str, format_name: str) -> None:
        self.work.raw_scan()


class Ratios(Suite):
    """The store's time divided by the bare engine's, in alternating runs."""

    unit = "ratio"

    def track_put_and_commit(self, engine: str, format_name: str) -> float:
        return ratio(self.work.put_and_commit, self.work.raw_put)

    def track_get(self, engine: str, format_name: str) -> float:
        return ratio(self.work.get, self.work.raw_get)

    def track_scan(self, engine: str, format_name: str) -> float:
        return ratio(self.work.scan, self.work.raw_scan)

    def track_put_and_scan_in_turn(self, engine: str, format_name: str) -> float:
        """Return the time of puts that are each followed by a scan of the key, as a ratio.

        The time is divided by the time of all puts and then all scans.
        """
        return in_turn_ratio(self.work)


def in_turn_ratio(work: KeyValueWorkload, rounds: int = 5) -> float:
    apart, turns = [], []
    for _ in range(rounds):
        put = seconds(work.put_some)
        apart.append(put + seconds(work.scan_some))
        work.state.commit()
        turns.append(seconds(work.put_and_scan_in_turn))
        work.state.commit()
    return min(turns) / min(apart)
