"""Tests of the order and the bounds of scans, and that later writes do not change a scan."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain, product

import pytest

from kstore_core.engine import Chunk, Namespace, Rows
from kstore_core.errors import StoreClosedError
from kstore_core.testing.engine_suite.base import EnginePart, numbered, put, read, within
from kstore_core.testing.explaining import same

BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])

KEYS = [
    b"\x00", b"\x00\x00", b"\x00\xff", b"\x01", b"0", b"A", b"a", b"a\x00", b"a\x00\x00", b"a\x01",
    b"aa", b"a\xff", b"a\xff\xff", b"b", b"\x7f", b"\x7f\xff", b"\x80", b"\x80\x00", b"\xfe\xff",
    b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff",
]  # fmt: skip
ROWS = {key: b"value of " + key for key in KEYS}
BOUNDS = [None, b"", b"\x00", b"\x00\x01", b"a", b"a\x00", b"a\x00\x01", b"\x7f\xff\xff", b"\x80",
          b"\xff", b"\xff\xff\xff", b"\xff" * 4]  # fmt: skip
RANGES = [(5, 9), (0, 0), (9, 5), (3, 700), (1999, 2500), (3000, 4000), (0, 2000), (6, 8)]


class ScanPromises(EnginePart):
    """Tests of ``scan``, ``start``, ``starts`` and ``first``."""

    @BOTH_WAYS
    def test_rows_come_in_the_order_of_unsigned_bytes(self, reverse: bool) -> None:
        database = self.open()
        for key in KEYS[1::2] + KEYS[::2]:
            database.write({"default": Rows([key], [ROWS[key]])})
        rows = read(database.namespace("default").scan(reverse=reverse))
        assert rows == within(ROWS, None, None, reverse=reverse), (
            "rows come in the order of their unsigned bytes, or in reverse; a prefix comes first"
        )

    @BOTH_WAYS
    def test_scans_are_half_open(self, reverse: bool) -> None:
        namespace = self.filled(ROWS).namespace("default")
        for lo, hi in product(BOUNDS, BOUNDS):
            wanted = within(ROWS, lo, hi, reverse=reverse)
            promise = (
                f"scan({lo!r}, {hi!r}, reverse={reverse}) gives lo <= key < hi; None is no limit"
            )
            same(read(namespace.scan(lo, hi, reverse=reverse)), wanted, promise)
            same(
                started(namespace, lo, hi, reverse),
                wanted,
                f"start returns the rows of the scan: {promise}",
            )
            first = namespace.first(lo, hi, reverse=reverse)
            assert first == (wanted[0] if wanted else None), (
                f"first returns the first row of the scan: {promise}"
            )

    @BOTH_WAYS
    def test_bounds_that_are_stored_keys(self, reverse: bool) -> None:
        rows = numbered(50)
        namespace = self.filled(rows).namespace("default")
        for lo, hi in product(list(rows)[::7], list(rows)[::5]):
            wanted = within(rows, lo, hi, reverse=reverse)
            promise = f"scan({lo!r}, {hi!r}, reverse={reverse}) includes lo and excludes hi"
            same(read(namespace.scan(lo, hi, reverse=reverse)), wanted, promise)
            same(
                started(namespace, lo, hi, reverse),
                wanted,
                f"start returns the rows of the scan: {promise}",
            )

    @BOTH_WAYS
    def test_an_empty_namespace(self, reverse: bool) -> None:
        namespace = self.open().namespace("default")
        for lo, hi in product([None, b"", b"a"], [None, b"", b"b"]):
            assert read(namespace.scan(lo, hi, reverse=reverse)) == [], (
                "a scan of an empty namespace returns nothing"
            )
            assert namespace.first(lo, hi, reverse=reverse) is None, (
                "first of an empty namespace is None"
            )
            assert namespace.start(lo, hi, reverse=reverse) == (None, None), (
                "start of an empty namespace is (None, None)"
            )

    @BOTH_WAYS
    def test_long_bounds(self, reverse: bool) -> None:
        longest = self.able.max_key_bytes or 500
        stems = (b"\x00", b"a", b"a\x00", b"\xff")
        ends = [stem.ljust(longest, fill) for stem in stems for fill in (b"\x00", b"\xff")]
        rows = ROWS | dict.fromkeys(ends, b"long")
        namespace = self.filled(rows).namespace("default")
        for bound in (*ends, *(end + fill for end in ends for fill in (b"\x00", b"\xff"))):
            for lo, hi in ((bound, None), (None, bound), (b"a", bound), (bound, b"b")):
                same(
                    read(namespace.scan(lo, hi, reverse=reverse)),
                    within(rows, lo, hi, reverse=reverse),
                    "a bound may be longer than max_key_bytes",
                )

    @BOTH_WAYS
    def test_chunks_start_small_and_grow(self, reverse: bool) -> None:
        rows = numbered(20_000)
        chunks = list(self.filled(rows).namespace("default").scan(reverse=reverse))
        sizes = [len(keys) for keys, _ in chunks]
        same(read(chunks), within(rows, None, None, reverse=reverse), "a scan reads everything")
        assert sizes[0] < 1000, f"the first chunk has less than 1000 rows, not {sizes[0]}"
        assert max(sizes) >= 64, "later chunks are larger: one has 64 rows or more"

    @BOTH_WAYS
    def test_a_scan_is_as_of_its_call(self, reverse: bool) -> None:
        rows = numbered(5000)
        database = self.filled(rows)
        namespace = database.namespace("default")
        untouched, begun = namespace.scan(reverse=reverse), namespace.scan(reverse=reverse)
        seen = read([next(begun)])
        bounds = (b"%08d" % 100, b"%08d" % 4900)
        start = namespace.start(*bounds, reverse=reverse)
        put(database, dict.fromkeys(list(rows)[::3]))
        put(database, numbered(5000, b"changed", start=1))
        database.write({"default": Rows(deleted_ranges=[(b"%08d" % 2000, None)])})
        database.namespace("made meanwhile")
        database.sync()
        wanted = within(rows, None, None, reverse=reverse)
        promise = "a scan shows the rows as of its call, without later writes"
        same(seen + read(begun), wanted, promise)
        same(read(untouched), wanted, f"{promise}, even before its first chunk was read")
        same(
            read(joined(start)),
            within(rows, *bounds, reverse=reverse),
            f"{promise}; the rest of a start, too",
        )
        assert len(read(namespace)) == 1999, "a later scan sees what was written"

    @BOTH_WAYS
    def test_starts_are_those_of_each_range(self, reverse: bool) -> None:
        rows = numbered(2000)
        database = self.filled(ROWS | rows)
        namespace = database.namespace("default")
        bounds = [(b"%08d" % lo, b"%08d" % hi) for lo, hi in RANGES]
        bounds += product(filter(None, BOUNDS), filter(None, BOUNDS))
        begun = namespace.starts(bounds, reverse=reverse)
        if begun is None:
            return  # the engine has no faster way than start
        database.write({"default": Rows(deleted_ranges=[(b"", None)])})
        put(database, dict.fromkeys(rows, b"changed"))
        assert len(begun) == len(bounds), "starts returns one start for each range"
        for (lo, hi), start in zip(bounds, begun, strict=True):
            same(
                read(joined(start)),
                within(ROWS | rows, lo, hi, reverse=reverse),
                f"starts returns the result of start({lo!r}, {hi!r}, reverse={reverse})",
            )

    @BOTH_WAYS
    def test_a_scan_is_as_of_its_call_when_rows_are_loaded(self, reverse: bool) -> None:
        rows = numbered(3000)
        database = self.filled(rows)
        scan = database.namespace("default").scan(reverse=reverse)
        loaded = numbered(6000, b"loaded")
        database.load("default", [(list(loaded), list(loaded.values()))])
        same(
            read(scan),
            within(rows, None, None, reverse=reverse),
            "a scan shows the rows as of its call, without later loads",
        )

    def test_a_scan_of_a_namespace_that_is_dropped_does_not_end_early(self) -> None:
        rows = numbered(5000)
        database = self.open()
        put(database, rows, "gone")
        scan = database.namespace("gone").scan()
        seen = read([next(scan)])
        database.drop_namespace("gone")
        put(database, {b"other": b"row"}, "gone")
        try:
            seen += read(scan)
        except StoreClosedError:
            return
        same(
            seen,
            within(rows, None, None),
            "a scan of a dropped namespace continues, or raises StoreClosedError",
        )

    def test_scans_do_not_disturb_each_other(self) -> None:
        rows = numbered(3000)
        namespace = self.filled(rows).namespace("default")
        scans = [
            namespace.scan(), namespace.scan(reverse=True), namespace.scan(b"%08d" % 100),
            namespace.scan(None, b"%08d" % 2900, reverse=True),
        ]  # fmt: skip
        wanted = [
            within(rows, None, None), within(rows, None, None, reverse=True),
            within(rows, b"%08d" % 100, None), within(rows, None, b"%08d" % 2900, reverse=True),
        ]  # fmt: skip
        seen: list[list[tuple[bytes, bytes]]] = [[] for _ in scans]
        running = set(range(len(scans)))
        while running:
            for number in sorted(running):
                chunk = next(scans[number], None)
                if chunk is None:
                    running.discard(number)
                else:
                    seen[number] += read([chunk])
                namespace.first()
        same(seen, wanted, "scans that are open at the same time are independent")

    @BOTH_WAYS
    def test_a_scan_that_ended_stays_at_its_end(self, reverse: bool) -> None:
        namespace = self.filled(numbered(40)).namespace("default")
        scan = namespace.scan(reverse=reverse)
        assert len(read(scan)) == 40
        for _ in range(3):
            assert next(scan, None) is None, "a scan that has ended does not start again"

    def test_dropped_and_closed_scans_free_what_they_hold(self) -> None:
        rows = numbered(2000)
        database = self.filled(rows)
        namespace = database.namespace("default")
        for number in range(1500):
            scan = namespace.scan(reverse=number % 2 == 1)
            if number % 3:
                next(scan)
            if number % 5 == 0 and (close := getattr(scan, "close", None)):
                close()
                close()
                assert list(scan) == [], "a closed scan returns no more rows"
            del scan
        gc.collect()
        put(database, {b"z": b"written"})
        assert len(read(self.reopen(database))) == 2001, "dropped scans hold no reader and no lock"


def started(
    namespace: Namespace, lo: bytes | None, hi: bytes | None, reverse: bool
) -> list[tuple[bytes, bytes]]:
    """Return all rows in the result of the method ``start``."""
    return read(joined(namespace.start(lo, hi, reverse=reverse)))


def joined(start: tuple[Chunk | None, Iterator[Chunk] | None]) -> Iterator[Chunk]:
    """Return an iterator of all chunks in the result of the method ``start``."""
    chunk, rest = start
    return chain(() if chunk is None else (chunk,), rest or ())
