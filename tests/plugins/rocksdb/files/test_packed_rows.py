"""Arrow tables whose rows come from table files without a Python object for each row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.errors import CorruptionError, FormatError, StoreClosedError
from kstore_core.state import StateDirectory
from kstore_rocksdb.files.table_reader import TableScan
from kstore_rocksdb.scan import FamilyScan

ROWS = 20_000
FACTORIES = {
    "plain": stores.key_value,
    "timestamped": stores.timestamped_key_value,
    "headers": stores.timestamped_key_value_with_headers,
}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        yield state


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that were read as packed rows."""
    counts: list[int] = []
    read = TableScan.packed

    class Counting(TableScan):
        def packed(self, size: int, most_bytes: int) -> Any:
            keys, values = read(self, size, most_bytes)
            counts.append(len(keys))
            return keys, values

    monkeypatch.setattr("kstore_rocksdb.namespace.TableScan", Counting)
    return counts


def flushed(state: StateDirectory, kind: str = "headers", rows: int = ROWS, **serde: Any) -> Any:
    """A store whose rows are all in table files."""
    store: Any = state.open(FACTORIES[kind](kind, **serde))
    for number in range(rows):
        key: Any = f"k{number:06d}" if serde else b"k%06d" % number
        value = number / 4 if serde else b"v%d" % number * (number % 50)
        others: dict[str, Any] = {} if kind == "plain" else {"timestamp": number}
        if kind == "headers":
            others["headers"] = [("h", b"%d" % number)] * (number % 3)
        store.put(key, value, **others)
    state.commit()
    store.table.rows.base.native.flush()
    return store


def expected(store: Any) -> list[dict[str, Any]]:
    """The rows of a table, from the items of a scan."""
    found = []
    for key, record in store.all():
        row = {"key": key, "value": getattr(record, "value", record)}
        if hasattr(record, "timestamp"):
            row["timestamp"] = record.timestamp
        if hasattr(record, "headers"):
            row["headers"] = [{"key": h.key, "value": h.value} for h in record.headers]
        found.append(row)
    return found


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("typed", [False, True], ids=["bytes", "typed"])
def test_the_table_has_the_rows_of_the_scan(
    state: StateDirectory, used: list[int], kind: str, typed: bool
) -> None:
    serde = {"key": serdes.UTF8, "value": serdes.FLOAT64} if typed else {}
    store = flushed(state, kind, **serde)
    table = store.all().to_arrow()
    assert sum(used) > ROWS * 3 / 4
    table.validate(full=True)
    assert table.to_pylist() == expected(store)
    assert store.all().to_arrow(columns=["value"]).equals(table.select(["value"]))
    batches = list(store.all().to_arrow_batches(max_rows=3000))
    assert [batch.num_rows for batch in batches] == [3000] * 6 + [2000]
    assert pa.Table.from_batches(batches).equals(table.combine_chunks())


def test_items_and_tables_in_turns(state: StateDirectory, used: list[int]) -> None:
    store = flushed(state)
    scan = store.all()
    first = [next(scan)[0] for _ in range(2500)]
    batches = scan.to_arrow_batches(max_rows=4000)
    second = next(batches)["key"].to_pylist()
    third = [next(scan)[0] for _ in range(10)]
    rest = scan.to_arrow()["key"].to_pylist()
    assert used
    assert first + second + third + rest == [b"k%06d" % number for number in range(ROWS)]


def test_uncommitted_rows_and_a_reverse_scan_are_not_packed(
    state: StateDirectory, used: list[int]
) -> None:
    store = flushed(state)
    assert store.all(reverse=True).to_arrow()["key"][0].as_py() == b"k%06d" % (ROWS - 1)
    store.put(b"a", b"new", timestamp=1)
    table = store.all().to_arrow()
    assert table["key"][:2].to_pylist() == [b"a", b"k000000"]
    assert table.num_rows == ROWS + 1
    assert used == []


class Reversed:
    """A serde of a user."""

    name = "reversed"
    arrow_type = pa.binary()

    def serialize(self, value: bytes, headers: Any) -> bytes:
        return value[::-1]

    def deserialize(self, data: bytes, headers: Any) -> bytes:
        return data[::-1]


@pytest.mark.parametrize("max_rows", [10**10, 2**61 + 1696, sys.maxsize])
def test_a_batch_of_any_number_of_rows(
    state: StateDirectory, used: list[int], max_rows: int
) -> None:
    store = flushed(state)
    (batch,) = store.all().to_arrow_batches(max_rows=max_rows)
    assert used
    assert pa.Table.from_batches([batch]).equals(store.all().to_arrow().combine_chunks())


def test_a_scan_that_ends_between_two_tables_says_so(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another thread had closed the scan after the scan had seen that it may read on."""
    scan = flushed(state).all()
    packed = FamilyScan.packed.fget

    def closing(self: FamilyScan) -> Any:
        read = packed(self)  # type: ignore[misc]
        if read is not None:
            scan.close()
        return read

    monkeypatch.setattr(FamilyScan, "packed", property(closing))
    with pytest.raises(StoreClosedError):
        scan.to_arrow()


def test_a_serde_of_a_user_gets_each_row(state: StateDirectory, used: list[int]) -> None:
    store: Any = state.open(stores.key_value("s", value=Reversed()))
    for number in range(ROWS):
        store.put(b"k%06d" % number, b"ab%d" % number)
    state.commit()
    store.table.rows.base.native.flush()
    table = store.all().to_arrow()
    assert used
    assert table["value"].to_pylist() == [b"ab%d" % number for number in range(ROWS)]


def test_a_table_outlives_its_store(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = flushed(state)
        scan = store.all()
        batches = scan.to_arrow_batches(max_rows=10_000)
        first = next(batches)
    assert first["key"][9_999].as_py() == b"k009999"
    with pytest.raises(StoreClosedError):
        next(batches)


def test_a_malformed_row_is_an_error(state: StateDirectory) -> None:
    store = flushed(state)
    store.table.put_one(b"k015000", b"\x02\x02")
    state.commit()
    store.table.rows.base.native.flush()
    with pytest.raises(FormatError, match=r"row .*value_timestamp_headers"):
        store.all().to_arrow()


def test_damage_is_the_error_of_rocksdb(tmp_path: Path, used: list[int]) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = flushed(state)
        batches = store.all().to_arrow_batches(max_rows=4096)
        keys = next(batches)["key"].to_pylist()
        assert used
        (file,) = store.table.rows.base._path.glob("*.sst")
        data = bytearray(file.read_bytes())
        data[len(data) * 3 // 4] ^= 1
        with file.open("r+b") as opened:  # the same file, which is mapped
            opened.write(data)
        with pytest.raises(CorruptionError, match="checksum mismatch"):
            keys += [key for batch in batches for key in batch["key"].to_pylist()]
    assert keys == [b"k%06d" % number for number in range(len(keys))]
    assert len(keys) >= 4096
