"""The tasks of a foreign-key join, which compute the spans of pairs of versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore_core.errors import RetentionExceededError
from kstore_core.spark.join.tasks import with_versions
from kstore_core.spark.join.versions import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.join.in_memory import InMemoryVersions

__all__ = ["SpanTask"]

_PIECES = 20_000
"""The approximate number of rows of a batch of the result."""


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The arguments of a foreign-key join for its tasks. Spark calls :meth:`join`.

    Each input row is a version of the left store. The row has the columns of the version,
    ``foreign_key``, and ``end``, which is the end of the version.

    Attributes
    ----------
    source : Source
        The right store.
    left : tuple of str
        The columns of the left store in the result. ``timestamp`` is always one of them.
    inner : bool
        Drop spans without a right version.
    refuse_expired : bool
        Raise an error for a span without a right version that begins before the right history.
    as_millis : bool
        Return times in ms instead of Spark timestamps.
    """

    source: Source
    left: tuple[str, ...]
    inner: bool
    refuse_expired: bool
    as_millis: bool

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the spans of the left versions of a task in batches."""
        for some, versions in with_versions(self.source, batches, self._keys_and_times):
            yield from self._spans(versions, some)

    def _keys_and_times(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the serialised foreign keys and the begins of the left versions."""
        from kstore_core.spark.columns.arrow import serialized

        keys = serialized(self.source.reader.spec.key, batch.column("foreign_key"))
        return keys, batch.column("timestamp")

    def _spans(self, versions: InMemoryVersions, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        from kstore_core.spark.join.spans import overlaps

        keys, begins = self._keys_and_times(batch)
        ends = batch.column("end")
        start = 0
        while start < batch.num_rows:
            start, rows, *pieces = overlaps(
                versions.index,
                keys,
                begins,
                ends,
                gaps=self.refuse_expired or not self.inner,
                start=start,
                limit=_PIECES,
            )
            if self.refuse_expired:
                self._check_expired(versions, keys.take(rows), pieces)
            if self.inner and pieces[0].null_count:
                matched = pieces[0].is_valid()
                rows, *pieces = (column.filter(matched) for column in (rows, *pieces))
            if len(rows):
                yield self._joined(versions, batch, rows, pieces)

    def _joined(
        self,
        versions: InMemoryVersions,
        batch: pa.RecordBatch,
        rows: pa.Array,
        pieces: list[pa.Array],
    ) -> pa.RecordBatch:
        """Return a batch of spans with the columns of their left and right versions."""
        import pyarrow as pa

        from kstore_core.spark.columns.arrow import timestamps

        columns = {name: batch.column(name).take(rows) for name in (*self.left, "foreign_key")}
        places, since, begins, ends = pieces
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
                f"from {begins[at]} ms on, a version of the left store has the foreign key "
                f"{keys[at].as_py()!r}. The history of the right store {spec.name!r} in "
                f"{self.source.reader.root} begins later. Set a longer history retention for "
                "the right store, or pass on_expired='null'"
            )
