"""The database against a plain dict, step by step, with snapshots and reopens between."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kstore_core.engine import DURABILITY_LEVELS, Durability, Rows
from kstore_core.testing.machines.engine import compare
from kstore_rocksdb import RocksDBEngine, loading
from kstore_rocksdb.snapshot import RocksDBSnapshot
from tests.plugins.rocksdb.support import scanned

NAMES = ("default", "offsets", "other")
KEYS = st.one_of(
    st.binary(max_size=2),
    st.sampled_from([b"", b"\x00", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"a", b"a\x00"]),
    st.integers(0, 300).map(lambda i: b"%03d" % i),
)
VALUES = st.binary(max_size=8)
BOUNDS = st.one_of(st.none(), KEYS)

Model = dict[str, dict[bytes, bytes]]


class DatabaseMachine(RuleBasedStateMachine):
    """Rules change both; whatever is read is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="kstore-model-"))
        self.engine = RocksDBEngine({"write_buffer_bytes": 64 * 1024})
        self.model: Model = {name: {} for name in NAMES}
        self.moments: list[tuple[RocksDBSnapshot, Model]] = []

    @initialize(level=st.sampled_from(DURABILITY_LEVELS))
    def begin(self, level: Durability) -> None:
        self.level = level
        self.database = self.engine.open(self.root, "s", durability=level)
        for name in NAMES:
            self.database.namespace(name)

    @rule(
        batch=st.dictionaries(
            st.sampled_from(NAMES),
            st.tuples(
                st.lists(st.tuples(KEYS, BOUNDS), max_size=2),
                st.dictionaries(KEYS, st.one_of(st.none(), VALUES), max_size=30),
            ),
        )
    )
    def write(
        self,
        batch: dict[str, tuple[list[tuple[bytes, bytes | None]], dict[bytes, bytes | None]]],
    ) -> None:
        native = {}
        for name, (ranges, rows) in batch.items():
            keys = sorted(rows)
            native[name] = Rows(keys, [rows[key] for key in keys], ranges)
        self.database.write(native)
        for name, (ranges, rows) in batch.items():
            model = self.model[name]
            for lo, hi in ranges:
                for key in [k for k in model if lo <= k and (hi is None or k < hi)]:
                    del model[key]
            for key, value in rows.items():
                if value is None:
                    model.pop(key, None)
                else:
                    model[key] = value

    @rule(name=st.sampled_from(NAMES), rows=st.dictionaries(KEYS, VALUES), by_files=st.booleans())
    def load(self, name: str, rows: dict[bytes, bytes], by_files: bool) -> None:
        keys = sorted(rows)
        usual = loading.FILES_FROM_ROWS
        loading.FILES_FROM_ROWS = 1 if by_files else usual
        try:
            chunk = keys, [rows[key] for key in keys]
            assert self.database.load(name, [chunk]) == len(rows)
        finally:
            loading.FILES_FROM_ROWS = usual
        self.model[name].update(rows)

    @rule(name=st.sampled_from(NAMES), lo=BOUNDS, hi=BOUNDS, keys=st.lists(KEYS, max_size=20))
    def read(self, name: str, lo: bytes | None, hi: bytes | None, keys: list[bytes]) -> None:
        compare(self.database.namespace(name), self.model[name], lo, hi, keys)

    @rule(name=st.sampled_from(NAMES), lo=BOUNDS, hi=BOUNDS, keys=st.lists(KEYS, max_size=20))
    @precondition(lambda self: self.moments)
    def read_snapshots(
        self, name: str, lo: bytes | None, hi: bytes | None, keys: list[bytes]
    ) -> None:
        for snapshot, model in self.moments:
            compare(snapshot.namespace(name), model[name], lo, hi, keys)

    @rule()
    @precondition(lambda self: len(self.moments) < 3)
    def take_snapshot(self) -> None:
        model = {name: dict(rows) for name, rows in self.model.items()}
        self.moments.append((self.database.snapshot(), model))

    @rule()
    @precondition(lambda self: self.moments)
    def close_snapshot(self) -> None:
        self.moments.pop(0)[0].close()

    @rule(name=st.sampled_from(("offsets", "other")))
    def drop(self, name: str) -> None:
        self.database.drop_namespace(name)
        self.database.namespace(name)
        self.model[name] = {}

    @rule()
    def flush_and_compact(self) -> None:
        self.database.sync()
        for name in NAMES:
            native = self.database.namespace(name).native
            native.flush()
            native.compact_range(None, None)

    @rule()
    def reopen(self) -> None:
        self.database.close()
        self.moments.clear()
        self.database = self.engine.open(self.root, "s", durability=self.level)

    @rule()
    def read_from_a_copy(self) -> None:
        if self.level == "changelog":
            self.database.sync()
        target = self.root / "copies" / "rocksdb" / "s"
        self.database.checkpoint(target)
        for root in (self.root, target.parents[1]):
            reader = self.engine.open(root, "s", read_only=True)
            for name in NAMES:
                assert scanned(reader.namespace(name)) == sorted(self.model[name].items())
            reader.close()
        shutil.rmtree(target)

    @invariant()
    def all_rows_are_there(self) -> None:
        if hasattr(self, "database"):
            for name in NAMES:
                namespace = self.database.namespace(name)
                assert scanned(namespace) == sorted(self.model[name].items())

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
        shutil.rmtree(self.root)


TestDatabase = DatabaseMachine.TestCase
TestDatabase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
