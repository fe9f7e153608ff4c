"""Bugs of lookups, scans and snapshots."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from kstore_core.testing import WrappedDatabase, WrappedNamespace, WrappedSnapshot
from tests.testing.planted.base import planted


def rows_of(chunks):
    return [row for keys, values in chunks for row in zip(keys, values, strict=True)]


def chunked(rows, size=256):
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield [key for key, _ in part], [value for _, value in part]


@planted("test_rows_come_in_the_order_of_unsigned_bytes", "test_any_rows_and_any_bounds")
class ScansInTheOrderOfSignedBytes(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        rows = rows_of(self.inner.scan(lo, hi))
        rows.sort(key=lambda row: [byte ^ 0x80 for byte in row[0]], reverse=reverse)
        return chunked(rows)


@planted("test_rows_come_in_the_order_of_unsigned_bytes", "test_any_rows_and_any_bounds")
class ScansShortKeysFirst(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        rows = rows_of(self.inner.scan(lo, hi))
        rows.sort(key=lambda row: (len(row[0]), row[0]), reverse=reverse)
        return chunked(rows)


@planted("test_scans_are_half_open", "test_bounds_that_are_stored_keys")
class HasItsHi(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return self.inner.scan(lo, None if hi is None else hi + b"\0", reverse=reverse)


@planted("test_scans_are_half_open", "test_bounds_that_are_stored_keys")
class HasNotItsLo(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return self.inner.scan(None if lo is None else lo + b"\0", hi, reverse=reverse)


@planted("test_scans_are_half_open", "test_bounds_that_are_stored_keys")
class HasItsHiBackwards(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        more = reverse and hi is not None and (lo is None or lo <= hi)
        return self.inner.scan(lo, hi + b"\0" if more else hi, reverse=reverse)


@planted("test_scans_are_half_open")
class TakesAnEmptyHiForNone(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return self.inner.scan(lo, hi or None, reverse=reverse)


@planted("test_long_bounds", lives_catch=False)
class CutsLongBounds(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return self.inner.scan(lo and lo[:100], hi and hi[:100], reverse=reverse)


@planted("test_scans_are_half_open")
class GivesTheLastForTheFirst(WrappedNamespace):
    def first(self, lo=None, hi=None, *, reverse=False):
        rows = rows_of(self.inner.scan(lo, hi, reverse=reverse))
        return rows[-1] if rows else None


@planted("test_a_scan_is_as_of_its_call", lives_catch=False)
class StartsAndForgetsTheRest(WrappedNamespace):
    def start(self, lo=None, hi=None, *, reverse=False):
        return next(self.inner.scan(lo, hi, reverse=reverse), None), None


@planted("test_starts_are_those_of_each_range", lives_catch=False)
class SortsTheRangesOfStarts(WrappedNamespace):
    def starts(self, ranges, *, reverse=False):
        return [self.inner.start(lo, hi, reverse=reverse) for lo, hi in sorted(ranges)]


@planted("test_starts_are_those_of_each_range", lives_catch=False)
class StartsLaterThanCalled(WrappedNamespace):
    """What follows the first row is of another moment."""

    def starts(self, ranges, *, reverse=False):
        return [self.begin(lo, hi, reverse) for lo, hi in ranges]

    def begin(self, lo, hi, reverse):
        row = self.inner.first(lo, hi, reverse=reverse)
        if row is None:
            return None, None
        return ([row[0]], [row[1]]), self.go_on(row[0], lo, hi, reverse)

    def go_on(self, last, lo, hi, reverse):
        lo, hi = (lo, last) if reverse else (last + b"\0", hi)
        yield from self.inner.scan(lo, hi, reverse=reverse)


@planted("test_readers_beside_a_writer_see_whole_batches", lives_catch=False)
class TakesStartsApart(WrappedNamespace):
    """A batch may be written between two of them."""

    def starts(self, ranges, *, reverse=False):
        begun = []
        for lo, hi in ranges:
            begun.append(self.inner.start(lo, hi, reverse=reverse))
            time.sleep(0.001)
        return begun


@planted("test_a_scan_is_as_of_its_call")
class ScansLater(WrappedNamespace):
    """A generator: the scan begins when its first chunk is asked for."""

    def scan(self, lo=None, hi=None, *, reverse=False):
        yield from self.inner.scan(lo, hi, reverse=reverse)


@planted("test_a_scan_is_as_of_its_call", lives_catch=False)
class SeeksAgainForEachChunk(WrappedNamespace):
    """Each chunk is of its own moment."""

    def scan(self, lo=None, hi=None, *, reverse=False):
        chunk = next(self.inner.scan(lo, hi, reverse=reverse), None)
        return self.go_on(chunk, lo, hi, reverse)

    def go_on(self, chunk, lo, hi, reverse):
        while chunk is not None:
            yield chunk
            last = chunk[0][-1]
            lo, hi = (lo, last) if reverse else (last + b"\0", hi)
            chunk = next(self.inner.scan(lo, hi, reverse=reverse), None)


@planted("test_many_rows", "test_chunks_start_small_and_grow", lives_catch=False)
class EndsAScanEarly(WrappedNamespace):
    """After ten thousand rows, without a word."""

    def scan(self, lo=None, hi=None, *, reverse=False):
        def some(chunks, count=0):
            for keys, values in chunks:
                yield keys, values
                count += len(keys)
                if count > 10_000:
                    return

        return some(self.inner.scan(lo, hi, reverse=reverse))


@planted("test_chunks_start_small_and_grow", lives_catch=False)
class PaysForAThousandRows(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return iter(list(chunked(rows_of(self.inner.scan(lo, hi, reverse=reverse)), 10**6)))


@planted("test_dropped_and_closed_scans_free_what_they_hold", lives_catch=False)
class LeavesAFileOpenForEachScan(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        def through(chunks, held):
            yield from chunks
            held.close()

        held = Path(os.devnull).open()  # noqa: SIM115
        return through(self.inner.scan(lo, hi, reverse=reverse), held)


@planted("test_chunks_start_small_and_grow", lives_catch=False)
class GivesRowsOneByOne(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return iter(list(chunked(rows_of(self.inner.scan(lo, hi, reverse=reverse)), 1)))


@planted("test_an_empty_namespace")
class GivesAnEmptyChunk(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return iter([*self.inner.scan(lo, hi, reverse=reverse), ([], [])])


@planted("test_scans_are_half_open")
class GivesTuples(WrappedNamespace):
    def scan(self, lo=None, hi=None, *, reverse=False):
        return ((tuple(k), tuple(v)) for k, v in self.inner.scan(lo, hi, reverse=reverse))


@planted("test_get_many_keeps_the_order_of_its_keys", "test_get_many_of_many")
class SortsTheKeysOfGetMany(WrappedNamespace):
    def get_many(self, keys):
        return self.inner.get_many(sorted(keys))


@planted("test_get_many_keeps_the_order_of_its_keys")
class LeavesOutWhatGetManyMisses(WrappedNamespace):
    def get_many(self, keys):
        return [value for value in self.inner.get_many(keys) if value is not None]


@planted("test_an_empty_value_is_a_value")
class ReadsAnEmptyValueAsNone(WrappedNamespace):
    def get(self, key):
        return self.inner.get(key) or None


@planted("test_a_lookup_sees_the_last_write")
class RemembersLookups(WrappedNamespace):
    """A cache that no write clears."""

    def __init__(self, inner, owner):
        super().__init__(inner, owner)
        self.seen = owner.__dict__.setdefault("seen", {}).setdefault(id(inner), {})

    def get(self, key):
        if key not in self.seen:
            self.seen[key] = self.inner.get(key)
        return self.seen[key]


@planted("test_fast_get_is_get", lives_catch=False)
class HasAFastGetOfAnotherKey(WrappedNamespace):
    @property
    def fast_get(self):
        return lambda key: self.inner.get(key + b"\0")


@planted("test_a_count_is_about_right")
class CountsBelowZero(WrappedNamespace):
    def approximate_count(self):
        return self.inner.approximate_count() - 1


@planted("test_namespaces_are_apart", "test_one_batch_reaches_every_namespace", "test_any_batches")
class LeaksIntoAnotherNamespace(WrappedDatabase):
    def write(self, batch):
        also = {"other": batch["default"]} if "default" in batch else {}
        self.inner.write({**also, **batch} if "other" in self.inner.namespaces() else batch)


@planted("test_a_snapshot_does_not_move")
class MovesItsSnapshots(WrappedDatabase):
    """A snapshot is the live database."""

    def snapshot(self):
        outer = self

        class Live(WrappedSnapshot):
            def namespace(self, name):
                self.inner.namespace(name)
                return outer.namespace(name)

        return Live(self.inner.snapshot(), self.owner)


@planted("test_a_snapshot_does_not_move")
class MovesTheLookupsOfASnapshot(WrappedDatabase):
    """Scans are of the moment, lookups are not."""

    def snapshot(self):
        live = self.inner

        class Mixed(WrappedSnapshot):
            def namespace(self, name):
                then = WrappedNamespace(self.inner.namespace(name), self.owner)
                if name in live.namespaces():
                    then.get = live.namespace(name).get
                    then.get_many = live.namespace(name).get_many
                return then

        return Mixed(self.inner.snapshot(), self.owner)


@planted("test_a_snapshot_has_the_namespaces_that_there_were", lives_catch=False)
class MakesUpNamespacesOfASnapshot(WrappedDatabase):
    def snapshot(self):
        live = self.inner

        class Generous(WrappedSnapshot):
            def namespace(self, name):
                try:
                    return self.inner.namespace(name)
                except KeyError:
                    return live.namespace(name)

        return Generous(self.inner.snapshot(), self.owner)


@planted("test_readers_beside_a_writer_see_whole_batches", lives_catch=False)
class SnapshotsNamespacesApart(WrappedDatabase):
    """Each namespace of a snapshot is taken when it is first asked for, after one more write."""

    written = threading.Event()

    def write(self, batch):
        super().write(batch)
        self.written.set()

    def snapshot(self):
        live, names, written = self.inner, self.inner.namespaces(), self.written

        class Lazy(WrappedSnapshot):
            def namespace(self, name):
                if name not in names:
                    raise KeyError(name)
                written.clear()
                written.wait(1)
                return live.snapshot().namespace(name)

        return Lazy(self.inner.snapshot(), self.owner)
