"""The tasks of a foreign-key join, which compute when two versions were valid at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kstore_core.errors import RetentionExceededError
from kstore_core.spark.join.tasks import in_parts, with_versions
from kstore_core.spark.join.versions import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.join.in_memory import InMemoryVersions

__all__ = ["SpanTask"]

_PIECES = 20_000
"""The approximate number of rows of a batch of the result."""

_SPANS = ["row", "version", "since", "begin", "end"]
"""The columns of the result of :func:`overlaps`."""


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The arguments of a foreign-key join for its tasks. Spark calls :meth:`join` in each task.

    Each input row is a version of the left store. The row has the columns ``left`` of the version,
    and the columns ``foreign_key`` and ``end``. ``end`` is the exclusive end of the version's
    validity in ms, or null if the version is still valid.

    Attributes
    ----------
    source : Source
        The right store.
    left : tuple of str
        The names of the left store's columns in the result, which always include ``timestamp``.
    inner : bool
        If true, drop a span during which the foreign key has no version in the right store.
    refuse_expired : bool
        If true, raise an error if the foreign key has no version during a span that begins before
        the history of the foreign key's shard.
    as_millis : bool
        If true, return times in ms. If false, return Spark timestamps.
    """

    source: Source
    left: tuple[str, ...]
    inner: bool
    refuse_expired: bool
    as_millis: bool

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the left versions of a task, and yield batches of the spans of the result."""
        for some, versions in with_versions(self.source, batches, self._keys_and_times):
            yield from self._spans(versions, some)

    def _keys_and_times(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the serialised foreign keys of the left versions, and their begins in ms."""
        from kstore_core.spark.columns.arrow import serialized

        keys = serialized(self.source.reader.spec.key, batch.column("foreign_key"))
        return keys, batch.column("timestamp")

    def _spans(self, versions: InMemoryVersions, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from kstore_core.spark.join.spans import overlaps

        keys, begins = self._keys_and_times(batch)
        ends = batch.column("end")
        start = 0
        while start < batch.num_rows:
            start, rows, *pieces = overlaps(
                versions.lookup,
                keys,
                begins,
                ends,
                gaps=self.refuse_expired or not self.inner,
                start=start,
                limit=_PIECES,
            )
            if self.refuse_expired:
                self._check_expired(versions, keys.take(rows), pieces)
            spans = pa.RecordBatch.from_arrays([rows, *pieces], names=_SPANS)
            if self.inner and pieces[0].null_count:
                spans = spans.filter(pieces[0].is_valid())
            for at in range(0, spans.num_rows, _PIECES):  # One row may have many spans.
                yield from in_parts(
                    partial(self._joined, versions, batch), spans[at : at + _PIECES]
                )

    def _joined(
        self, versions: InMemoryVersions, batch: pa.RecordBatch, spans: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return a batch of the result, with the columns of both versions of each span.

        ``spans`` contains the columns of :func:`overlaps`. The first one contains the positions of
        the left versions in ``batch``. Raise an OverflowError if the result would be too large.
        """
        import pyarrow as pa

        from kstore_core.spark.columns.arrow import timestamps

        rows, places, since, begins, ends = spans.columns
        try:
            columns = {name: batch.column(name).take(rows) for name in (*self.left, "foreign_key")}
        except pa.ArrowInvalid as error:  # A column would have more than 2 GiB.
            raise OverflowError(str(error)) from error
        columns["foreign_value"], *headers = versions.columns(places, headers=self.source.headers)
        columns["foreign_timestamp"] = since
        if headers:
            columns["foreign_headers"] = headers[0]
        columns["valid_from"], columns["valid_to"] = begins, ends
        for name in ("timestamp", "foreign_timestamp", "valid_from", "valid_to"):
            columns[name] = timestamps(columns[name], as_millis=self.as_millis)
        return pa.RecordBatch.from_pydict(columns)

    def _check_expired(
        self, versions: InMemoryVersions, keys: pa.Array, pieces: list[pa.Array]
    ) -> None:
        import pyarrow.compute as pc

        places, _, begins, _ = pieces
        lost = pc.indices_nonzero(pc.and_(places.is_null(), versions.expired(keys, begins)))
        if len(lost):
            at = lost[0].as_py()
            spec = self.source.reader.spec
            raise RetentionExceededError(
                f"a version of the left store that is valid at {begins[at]} ms has the foreign key "
                f"{keys[at].as_py()!r}, but this time is before the history of the right store "
                f"{spec.name!r} in {self.source.reader.root}. Set a longer history retention for "
                "the right store, or pass on_expired='null'"
            )
