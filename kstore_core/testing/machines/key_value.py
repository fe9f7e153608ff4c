"""The state machine of a key-value store of any format."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from kstore_core.testing import strategies
from kstore_core.testing.kinds import Record
from kstore_core.testing.machines.store import StoreMachine
from kstore_core.testing.models import KeyValueModel

__all__ = ["KeyValueMachine"]

KEYS = st.runner().flatmap(lambda machine: strategies.keys(machine.able))
ENDS = st.none() | KEYS
RECORDS = strategies.records()


class KeyValueMachine(StoreMachine):
    """A state machine that compares a key-value store with a dict."""

    model: KeyValueModel

    def new_model(self) -> KeyValueModel:
        return KeyValueModel()

    def items(self, scan: Any) -> list[tuple[bytes, Record | None]]:
        return [(key, self.read(value)) for key, value in scan]

    def rewrite(self) -> None:
        for key, record in list(self.model.rows.items()):
            self.store.put(key, self.kind.value(record))

    @rule(key=KEYS, given=st.none() | RECORDS)
    def put(self, key: bytes, given: Any) -> None:
        record = self.record(given)
        self.store.put(key, self.kind.value(record))
        self.model.put(key, record)

    @rule(key=KEYS, given=RECORDS)
    def put_if_absent(self, key: bytes, given: Any) -> None:
        record = self.record(given)
        old = self.store.put_if_absent(key, self.kind.value(record))
        assert self.read(old) == self.model.rows.get(key), "put_if_absent returns the old value"
        self.model.rows.setdefault(key, record)

    @rule(rows=st.lists(st.tuples(KEYS, st.none() | RECORDS), max_size=8))
    def put_all(self, rows: Any) -> None:
        records = [(key, self.record(given)) for key, given in rows]
        self.store.put_all([(key, self.kind.value(record)) for key, record in records])
        for key, record in records:
            self.model.put(key, record)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        old = self.read(self.store.delete(key))
        assert old == self.model.rows.get(key), "delete returns the old value"
        self.model.put(key, None)

    @rule(keys=st.lists(KEYS, max_size=5))
    def get_many(self, keys: list[bytes]) -> None:
        found = list(map(self.read, self.store.get_many(keys)))
        assert found == [self.model.rows.get(key) for key in keys], "get_many"

    @rule(keys=st.lists(KEYS, max_size=5))
    def get(self, keys: list[bytes]) -> None:
        found = [self.read(self.store.get(key)) for key in keys]
        assert found == [self.model.rows.get(key) for key in keys], "get"

    @rule(lo=ENDS, hi=ENDS, reverse=st.booleans())
    def range(self, lo: Any, hi: Any, reverse: bool) -> None:
        wanted = self.model.range(lo, hi, reverse=reverse)
        assert self.items(self.store.range(lo, hi, reverse=reverse)) == wanted, "range"

    @rule(prefix=KEYS, reverse=st.booleans())
    def prefix_scan(self, prefix: bytes, reverse: bool) -> None:
        wanted = self.model.prefix(prefix)
        found = self.items(self.store.prefix_scan(prefix, reverse=reverse))
        assert found == (wanted[::-1] if reverse else wanted), "prefix_scan"

    @rule(key=KEYS, given=RECORDS, reverse=st.booleans(), commit=st.booleans())
    def scan_during_changes(self, key: bytes, given: Any, reverse: bool, commit: bool) -> None:
        wanted = self.model.range(None, None, reverse=reverse)
        scan = self.store.all(reverse=reverse)
        self.put(key, given)
        self.delete(wanted[0][0] if wanted else key)
        if commit:
            self.commit()
        assert self.items(scan) == wanted, "a scan shows the store as of its call"
