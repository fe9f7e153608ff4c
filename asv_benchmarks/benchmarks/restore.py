"""The restore of a store from its changelog, compared with a loop of raw puts of the same rows."""

from __future__ import annotations

import random
import resource
import shutil
import tempfile
from pathlib import Path

from kstore_core import open_state
from kstore_core.changelog import FileChangelog
from kstore_core.changelog.rows import row_layout
from kstore_core.codec import log_to_rows
from kstore_core.spec import StoreSpec

from .sizes import sized
from .workloads import ENGINES, HEADERS, KEY_VALUE, RAW, VERSIONED, seconds, shuffled_keys

VALUE = b"v" * 100
VERSIONS = 10


class RestoreWorkload:
    """A changelog of values of 100 bytes, with headers if the format has headers."""

    def __init__(self, engine: str, spec: StoreSpec, count: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.engine = engine
        self.spec = spec
        self.count = count
        self.turns = 0
        keys = shuffled_keys(count)
        if spec.shape == "versioned":
            keys = random.Random(4).choices(keys[: count // VERSIONS], k=count)
        headers = HEADERS if spec.format.headers else None
        with FileChangelog(self.scratch, "log") as log:
            for number, key in enumerate(keys):
                log.append(key, VALUE, 1_700_000_000_000 + number * 10, headers)

    def close(self) -> None:
        shutil.rmtree(self.scratch)

    def restore(self) -> None:
        """Restore into a new store, with all commits."""
        self.turns += 1
        with (
            FileChangelog(self.scratch, "log", read_only=True) as log,
            open_state(self.scratch / f"{self.turns}", engine=self.engine) as state,
        ):
            assert state.restore(self.spec, log).records == self.count
        shutil.rmtree(self.scratch / f"{self.turns}", ignore_errors=True)

    def raw_put(self) -> float:
        """Return the seconds of a loop of puts through the binding.

        The puts are in the order of the log, and in one transaction if the binding has
        transactions.
        """
        self.turns += 1
        raw = RAW[self.engine](self.scratch / f"raw-{self.turns}", self.spec.format.namespace)
        rows: list[tuple[bytes, bytes | None]] = []
        with FileChangelog(self.scratch, "log", read_only=True) as log:
            for records in log.read():
                rows += zip(*log_to_rows(records, row_layout(self.spec.format)), strict=True)

        def put_all() -> None:
            with raw.writing() as (_, put):
                for key, row in rows:
                    put(key, row)

        taken = seconds(put_all)
        raw.close()
        shutil.rmtree(self.scratch / f"raw-{self.turns}", ignore_errors=True)
        return taken

    def times_faster(self, rounds: int = 2) -> float:
        """Return the time of the fastest loop divided by the time of the fastest restore."""
        restores, loops = [], []
        for _ in range(rounds):
            restores.append(seconds(self.restore))
            loops.append(self.raw_put())
        return min(loops) / min(restores)


class Restore:
    params = (ENGINES, [*KEY_VALUE, *VERSIONED])
    param_names = ("engine", "format")
    timeout = 300
    number = 1
    repeat = 3

    def setup(self, engine: str, format_name: str) -> None:
        kind = {**KEY_VALUE, **VERSIONED}[format_name]
        spec = kind("s", 86_400_000) if format_name in VERSIONED else kind("s")
        self.work = RestoreWorkload(engine, spec, sized(100_000))

    def teardown(self, engine: str, format_name: str) -> None:
        self.work.close()

    def time_restore(self, engine: str, format_name: str) -> None:
        self.work.restore()

    def track_resident_mib(self, engine: str, format_name: str) -> float:
        self.work.restore()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
