"""Bugs of batches and loads."""

from __future__ import annotations

import time
from itertools import islice

from kstore_core.engine import Rows
from kstore_core.testing import WrappedDatabase
from tests.testing.planted.base import planted


def with_rows(batch, keys=None, values=None, ranges=None):
    """The batch with its parts changed, each by a function."""
    return {
        name: Rows(
            keys(rows.keys) if keys else rows.keys,
            values(rows.values) if values else rows.values,
            ranges(rows.deleted_ranges) if ranges else rows.deleted_ranges,
        )
        for name, rows in batch.items()
    }


@planted("test_a_lookup_sees_the_last_write", "test_many_rows", "test_any_batches")
class LosesAWrite(WrappedDatabase):
    """Every third write of a database is forgotten."""

    writes = 0

    def write(self, batch):
        self.writes += 1
        if self.writes % 3:
            self.inner.write(batch)


@planted("test_the_last_batch_before_a_close_is_there")
class LosesAWriteNow(WrappedDatabase):
    """What was written last is not there after a close."""

    last = ()

    def write(self, batch):
        self.inner.write(batch)
        self.last = list(batch["default"].keys) if "default" in batch else ()

    def close(self):
        if self.last and "default" in self.inner.namespaces():
            self.inner.write({"default": Rows(self.last, [None] * len(self.last))})
        self.last = ()
        self.inner.close()


@planted("test_a_large_batch", "test_many_rows", lives_catch=False)
class LosesTheEndOfALargeBatch(WrappedDatabase):
    def write(self, batch):
        self.inner.write(with_rows(batch, lambda keys: keys[:9000], lambda values: values[:9000]))


@planted(
    "test_a_batch_that_is_wrong_anywhere_writes_nothing",
    "test_a_batch_for_a_missing_namespace_writes_nothing",
    lives_catch=False,
)
class TearsABatchThatIsWrong(WrappedDatabase):
    """Namespaces are written one after the other, the first one before the others are looked at."""

    def write(self, batch):
        self.inner.write({})
        for name, rows in batch.items():
            self.inner.write({name: rows})


@planted("test_readers_beside_a_writer_see_whole_batches", lives_catch=False)
class ShowsHalfABatch(WrappedDatabase):
    """It is all written in the end, in two halves."""

    def write(self, batch):
        self.inner.write(with_rows(batch, lambda keys: keys[::2], lambda values: values[::2]))
        time.sleep(0.001)  # or a busy machine never lets a reader look
        self.inner.write(
            with_rows(batch, lambda keys: keys[1::2], lambda values: values[1::2], lambda _: [])
        )


@planted("test_ranges_are_deleted_before_rows_are_written", "test_any_batches")
class DeletesRangesAfterRows(WrappedDatabase):
    def write(self, batch):
        self.inner.write(batch)
        self.inner.write(with_rows(batch, lambda _: [], lambda _: []))


@planted(
    "test_ranges_are_deleted_before_rows_are_written",
    "test_a_range_without_an_end_reaches_it",
    "test_any_batches",
    "test_any_rows_and_any_bounds",
)
class DeletesNoRange(WrappedDatabase):
    def write(self, batch):
        self.inner.write(with_rows(batch, ranges=lambda _: []))


@planted("test_ranges_are_deleted_before_rows_are_written", "test_any_batches")
class FailsToDeleteARange(WrappedDatabase):
    """As where an engine's library does not know the call."""

    def write(self, batch):
        if any(rows.deleted_ranges for rows in batch.values()):
            raise AttributeError("no attribute 'delete_range'")
        self.inner.write(batch)


@planted("test_a_range_without_an_end_reaches_it", "test_any_batches")
class EndsAnOpenRangeAtFF(WrappedDatabase):
    def write(self, batch):
        def end(ranges):
            return [(lo, b"\xff" if hi is None else hi) for lo, hi in ranges]

        self.inner.write(with_rows(batch, ranges=end))


@planted("test_an_empty_or_inverted_range_deletes_nothing", "test_any_batches")
class TurnsAnInvertedRangeAround(WrappedDatabase):
    def write(self, batch):
        def turn(ranges):
            return [(lo, hi) if hi is None else (min(lo, hi), max(lo, hi)) for lo, hi in ranges]

        self.inner.write(with_rows(batch, ranges=turn))


@planted("test_a_batch_is_not_kept")
class KeepsTheListsOfABatch(WrappedDatabase):
    """What was written last is written again with the next batch, which should change nothing."""

    last = None

    def write(self, batch):
        if self.last is not None:
            self.inner.write(self.last)
        self.inner.write(batch)
        self.last = dict(batch)


@planted("test_a_batch_is_not_changed", lives_catch=False)
class EmptiesTheListsOfABatch(WrappedDatabase):
    def write(self, batch):
        self.inner.write(batch)
        for rows in batch.values():
            rows.deleted_ranges.clear()


@planted("test_a_value_of_none_deletes", "test_any_batches")
class WritesNoneAsAnEmptyValue(WrappedDatabase):
    def write(self, batch):
        self.inner.write(
            with_rows(batch, values=lambda found: [b"" if v is None else v for v in found])
        )


@planted("test_an_empty_value_is_a_value", "test_any_batches")
class TakesAnEmptyValueForADelete(WrappedDatabase):
    def write(self, batch):
        self.inner.write(with_rows(batch, values=lambda found: [v or None for v in found]))


@planted("test_a_batch_for_a_missing_namespace_writes_nothing", lives_catch=False)
class MakesANamespaceForABatch(WrappedDatabase):
    def write(self, batch):
        for name in batch:
            self.inner.namespace(name)
        self.inner.write(batch)


@planted("test_keys_that_do_not_ascend_are_refused", lives_catch=False)
class LoadsWhatDoesNotAscend(WrappedDatabase):
    def load(self, namespace, chunks):
        self.inner.namespace(namespace)
        count = 0
        for keys, values in chunks:
            rows = dict(zip(keys, values, strict=True))
            self.inner.write({namespace: Rows(sorted(rows), [rows[key] for key in sorted(rows)])})
            count += len(keys)
        return count


@planted("test_existing_rows_are_replaced")
class LoadsBelowWhatIsThere(WrappedDatabase):
    """A row that exists wins over the loaded one."""

    def load(self, namespace, chunks):
        held = self.inner.namespace(namespace)

        def missing():
            for keys, values in chunks:
                old = held.get_many(keys)
                yield keys, [n if o is None else o for n, o in zip(values, old, strict=True)]

        return self.inner.load(namespace, missing())


@planted("test_a_load_is_read_back")
class CountsTheChunksOfALoad(WrappedDatabase):
    def load(self, namespace, chunks):
        parts = list(chunks)
        self.inner.load(namespace, parts)
        return len(parts)


@planted("test_a_load_is_read_back", lives_catch=False)
class LoadsTheFirstTwentyThousand(WrappedDatabase):
    def load(self, namespace, chunks):
        rows = [row for keys, values in chunks for row in zip(keys, values, strict=True)]
        self.inner.load(namespace, ([[key], [value]] for key, value in islice(rows, 20_000)))
        return len(rows)
