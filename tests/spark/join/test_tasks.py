"""What a join's tasks make of Arrow batches, against plain loops over the versions. No Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstore_core import stores
from kstore_core.arrow import headers_type
from kstore_core.codec import partition
from kstore_core.errors import RetentionExceededError, StateError
from kstore_core.spark.join.in_memory import InMemoryVersions
from kstore_core.spark.join.span_tasks import SpanTask
from kstore_core.spark.join.tasks import JoinTask
from kstore_core.spark.join.versions import ShardLookup, Source
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.packing import PACKED, Packing
from tests.spark.support.logs import RETENTION, SHARDS, SPEC, Model, Record, make_log, plain_headers
from tests.spark.support.shards import put_shards, source_of

LOG = make_log(61, 900, SHARDS)
MODEL = Model(SHARDS, RETENTION).put(LOG)
WIDE = stores.versioned_key_value_with_headers("wide", 10**9, 100)
WIDE_MODEL = Model(SHARDS, 10**9).put(LOG)
PLENTY = 10**9

Row = tuple[bytes | None, int | None]


@dataclass(frozen=True)
class Published:
    """The same log twice: in a store that forgets, and in one that does not."""

    kept: Source
    wide: Source


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    sources = []
    for spec in (SPEC, WIDE):
        root = tmp_path_factory.mktemp(spec.name)
        shards = put_shards(root, LOG, spec, SHARDS)
        sources.append(source_of(root, shards, spec, cache_bytes=PLENTY))
    return Published(*sources)


def batches_of(rows: list[Row], size: int, *, by_shard: bool) -> list[list[pa.RecordBatch]]:
    """The rows of each task, in batches; for all shards at once, or a task a shard."""
    columns = {
        "number": pa.array(range(len(rows))),
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "at": pa.array([time for _, time in rows], pa.int64()),
    }
    batches = pa.table(columns).to_batches(size)
    return packed(batches, 1) if by_shard else [batches]


def packed(batches: list[pa.RecordBatch], key: int) -> list[list[pa.RecordBatch]]:
    """The packed rows of the task of each shard."""
    table = pa.Table.from_batches(Packing(SHARDS, SPEC.key, key).pack(iter(batches)), PACKED)
    mine = [table.filter(pa.compute.equal(table["shard"], shard)) for shard in range(SHARDS)]
    return [part.to_batches() for part in mine]


def task_of(source: Source, **options: Any) -> JoinTask:
    names = ("number", "key", "at", "value", "begin", "end", "headers")
    given_ = {"inner": False, "tolerance_ms": None, "refuse_expired": False}
    return JoinTask(source, 1, 2, names, **{**given_, **options})


def joined(task: Any, batches: list[list[pa.RecordBatch]]) -> list[Any]:
    """What the tasks give, by number of the row."""
    task = pickle.loads(pickle.dumps(task))
    rows = [row for part in batches for batch in task.join(iter(part)) for row in batch.to_pylist()]
    return sorted(
        (
            row["number"],
            row["value"],
            row["begin"],
            row["end"],
            None if row["headers"] is None else plain_headers(row["headers"]),
        )
        for row in rows
    )


def wanted(
    model: Model, rows: list[Row], tolerance: int | None, *, inner: bool
) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for number, (key, time) in enumerate(rows):
        version = model.as_of(key, time)
        if version is not None and tolerance is not None and time is not None:
            version = version if time - version.timestamp <= tolerance else None
        if version is not None:
            found.append(
                (number, version.value, version.timestamp, version.valid_to, version.headers)
            )
        elif not inner:
            found.append((number, None, None, None, None))
    return found


keys = st.none() | st.integers(0, 24).map(lambda n: b"k%d" % n)
times = st.none() | st.integers(900, 2_200) | st.sampled_from([r.timestamp for r in LOG])
MODES = [(True, PLENTY), (True, 0), (False, PLENTY), (False, 0)]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(keys, times), min_size=1, max_size=60),
    st.none() | st.integers(0, 60),
    st.booleans(),
    st.sampled_from(MODES),
    st.integers(1, 40),
)
def test_every_row_gets_the_version_of_its_time(
    published: Published,
    rows: list[Row],
    tolerance: int | None,
    inner: bool,
    mode: tuple[bool, int],
    size: int,
) -> None:
    everywhere, cache_bytes = mode
    source = replace(published.kept, everywhere=everywhere, cache_bytes=cache_bytes)
    task = task_of(source, inner=inner, tolerance_ms=tolerance)
    found = joined(task, batches_of(rows, size, by_shard=not everywhere))
    assert found == wanted(MODEL, rows, tolerance, inner=inner)


def test_a_shorter_history_is_not_taken_for_a_longer_one(published: Published) -> None:
    """Retention may change: then the same files answer for another time, in the same worker."""
    rows: list[Row] = [(record.key, record.timestamp) for record in LOG]
    batches = batches_of(rows, 100, by_shard=False)
    long = replace(published.kept, everywhere=True)
    spec = replace(long.reader.spec, history_retention_ms=RETENTION // 10)
    short = replace(long, reader=replace(long.reader, spec=spec))
    alone = joined(task_of(replace(short, cache_bytes=PLENTY - 1)), batches)
    assert joined(task_of(long), batches) != alone
    assert joined(task_of(short), batches) == alone


@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_has_expired_is_an_error_where_that_is_asked(
    published: Published, mode: tuple[bool, int]
) -> None:
    everywhere, cache_bytes = mode
    source = replace(published.kept, everywhere=everywhere, cache_bytes=cache_bytes)
    task = task_of(source, refuse_expired=True)
    refused = 0
    for key in (b"k1", b"k2", b"nobody"):
        horizon = MODEL.horizon(partition(key, SHARDS))
        for time in (0, horizon - 1, horizon, horizon + 50):
            batches = batches_of([(key, time), (None, 0), (key, None)], 10, by_shard=not everywhere)
            if time < horizon and MODEL.as_of(key, time) is None:
                refused += 1
                with pytest.raises(RetentionExceededError, match=rf"{key!r} .* its time {time}"):
                    joined(task, batches)
            else:
                assert len(joined(task, batches)) == 3
    assert refused >= 4


def test_what_a_worker_may_keep_says_how_it_looks(published: Published) -> None:
    kinds = []
    for cache_bytes in (PLENTY, 100, 0):
        with replace(published.kept, cache_bytes=cache_bytes).open(None) as versions:
            kinds.append(type(versions))
    assert kinds == [InMemoryVersions, ShardLookup, ShardLookup]


def test_rows_are_gathered_before_they_are_looked_up_in_a_shard(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    of = ShardLookup.for_rows
    monkeypatch.setattr(
        ShardLookup, "for_rows", lambda self, b, a: asked.append(b.num_rows) or of(self, b, a)
    )
    rows: list[Row] = [(b"k1", 1_800)] * 100
    task = task_of(replace(published.kept, cache_bytes=0))
    batches = batches_of(rows, 7, by_shard=False)
    assert len(joined(task, batches)) == 100
    assert asked == [100]


def test_too_much_at_once_is_looked_up_in_parts(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = [(b"k%d" % (n % 20), 1_700 + n) for n in range(100)]
    task = task_of(replace(published.kept, cache_bytes=0))
    whole = joined(task, batches_of(rows, 7, by_shard=False))
    monkeypatch.setattr("kstore_core.spark.join.versions._MOST_BYTES", 2_000)
    monkeypatch.setattr("kstore_core.spark.join.tasks._OUT_ROWS", 3)
    (batches,) = batches_of(rows, 7, by_shard=False)
    sizes = [batch.num_rows for batch in task.join(iter(batches))]
    assert sum(sizes) == 100
    assert set(sizes) <= {1, 2, 3}
    assert joined(task, [batches]) == whole == wanted(MODEL, rows, None, inner=False)
    monkeypatch.setattr("kstore_core.spark.join.versions._MOST_BYTES", 0)
    assert joined(task, [batches]) == whole


def test_times_in_the_hour_when_the_clock_goes_back(published: Published) -> None:
    times = pa.array([1698541199999999, 1698541200000001, -1, None], pa.timestamp("us"))
    zoned = times.cast(pa.timestamp("us", "Europe/Berlin"))
    batch = pa.record_batch({"number": range(4), "key": pa.array([b"k1"] * 4), "at": zoned})
    task = task_of(published.kept, refuse_expired=True)
    assert task._keys_and_times(batch)[1].to_pylist() == [1698541199999, 1698541200000, -1, None]


def test_a_key_with_many_versions_is_read_once(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = [(b"k1", 1_000 + n) for n in range(64)]
    task = task_of(replace(published.kept, cache_bytes=0))
    whole = joined(task, batches_of(rows, 64, by_shard=False))
    reads = []
    of = ShardLookup.for_rows
    monkeypatch.setattr(
        ShardLookup, "for_rows", lambda self, b, a: reads.append(b.num_rows) or of(self, b, a)
    )
    monkeypatch.setattr("kstore_core.spark.join.versions._MOST_BYTES", 0)
    assert joined(task, batches_of(rows, 64, by_shard=False)) == whole
    assert reads == [64]


def test_many_spans_of_one_row_come_in_pieces(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    (batches,) = span_batches([(b"k1", 0, None)], by_shard=False)
    task = span_task(published.wide)
    (whole,) = task.join(iter(batches))
    monkeypatch.setattr("kstore_core.spark.join.span_tasks._PIECES", 3)
    pieces = list(task.join(iter(batches)))
    assert max(piece.num_rows for piece in pieces) <= 3
    assert pa.Table.from_batches(pieces).combine_chunks() == pa.Table.from_batches([whole])


def test_repeated_large_left_values_are_split(published: Published) -> None:
    (batches,) = span_batches([(b"k1", 0, None)], by_shard=False)
    large = batches[0].set_column(0, "key", pa.array([bytes(2**27)]))
    sizes = [batch.nbytes for batch in span_task(published.wide).join(iter([large]))]
    assert len(sizes) > 1
    assert sum(sizes) > 2**31


def test_large_versions_are_returned_in_several_batches(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = [(b"k%d" % (n % 20), 1_700 + n) for n in range(100)]
    (batches,) = batches_of(rows, 100, by_shard=False)
    task = task_of(replace(published.kept, everywhere=True))
    spans = span_task(published.wide)
    (given_,) = span_batches([(b"k1", 0, None)] * 9, by_shard=False)
    whole = joined(task, [batches]), shared(spans, [given_])
    assert len(list(task.join(iter(batches)))) == len(list(spans.join(iter(given_[:1])))) == 1
    for limit in (0, 200):
        monkeypatch.setattr("kstore_core.spark.join.in_memory._MOST_DECODED", limit)
        assert (joined(task, [batches]), shared(spans, [given_])) == whole
        assert len(list(task.join(iter(batches)))) > 5
        assert len(list(spans.join(iter(given_[:1])))) > 1


def test_a_task_without_rows_opens_nothing(published: Published) -> None:
    task = task_of(replace(published.kept, reader=None))
    empty = batches_of([(b"a", 1)], 1, by_shard=False)[0][0].slice(0, 0)
    assert list(task.join(iter([empty]))) == []


# Foreign keys: spans of left versions, cut at those of the keys that they name.

Span = tuple[bytes | None, int, int | None]


def span_batches(spans: list[Span], *, by_shard: bool) -> list[list[pa.RecordBatch]]:
    ((batch,),) = batches_of([(key, begin) for key, begin, _ in spans], 10**6, by_shard=False)
    numbers = batch.column("number").to_pylist()
    columns = {
        "key": pa.array([b"%d" % n for n in numbers]),
        "timestamp": batch.column("at"),
        "headers": pa.array([[{"key": "n", "value": None}] * (n % 3) for n in numbers], HEADERS),
        "foreign_key": batch.column("key"),
        "end": pa.array([spans[n][2] for n in numbers], pa.int64()),
    }
    batches = pa.table(columns).to_batches(9)
    return packed(batches, 3) if by_shard else [batches]


HEADERS = headers_type()


def span_task(source: Source, **options: Any) -> SpanTask:
    given_ = {"inner": True, "refuse_expired": False, "as_millis": True, **options}
    return SpanTask(source, ("key", "timestamp", "headers"), **given_)


def shared(task: SpanTask, batches: list[list[pa.RecordBatch]]) -> list[dict[str, Any]]:
    task = pickle.loads(pickle.dumps(task))
    rows = [row for part in batches for batch in task.join(iter(part)) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (int(row["key"]), row["valid_from"]))


spans = st.builds(
    lambda key, begin, length: (key, begin, None if length is None else begin + length),
    keys,
    st.integers(900, 2_200),
    st.none() | st.integers(1, 400),
)


def intersections(spans: list[Span], *, inner: bool) -> Iterator[tuple[Any, ...]]:
    """Every left span with every right version that shares time with it, and what is left over."""
    forever = 2**62
    for number, (key, begin, end) in enumerate(spans):
        here, last = begin, forever if end is None else end
        for version in WIDE_MODEL.history_of(key) if key is not None else ():
            until = forever if version.valid_to is None else version.valid_to
            low, high = max(begin, version.timestamp), min(last, until)
            if low >= high:
                continue
            if low > here and not inner:
                yield number, None, None, None, here, low
            known = (version.value, version.timestamp, version.headers)
            yield number, *known, low, None if high == forever else high
            here = high
        if here < last and not inner:
            yield number, None, None, None, here, None if last == forever else last


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(spans, min_size=1, max_size=25), st.booleans(), st.sampled_from(MODES))
def test_spans_share_time_with_every_version_of_their_foreign_key(
    published: Published, given_: list[Span], inner: bool, mode: tuple[bool, int]
) -> None:
    everywhere, cache_bytes = mode
    source = replace(published.wide, everywhere=everywhere, cache_bytes=cache_bytes)
    found = shared(span_task(source, inner=inner), span_batches(given_, by_shard=not everywhere))
    assert [
        (
            int(row["key"]),
            row["foreign_value"],
            row["foreign_timestamp"],
            None if row["foreign_headers"] is None else plain_headers(row["foreign_headers"]),
            row["valid_from"],
            row["valid_to"],
        )
        for row in found
    ] == list(intersections(given_, inner=inner))
    for row in found:
        number = int(row["key"])
        assert (row["foreign_key"], row["timestamp"]) == given_[number][:2]
        assert len(row["headers"]) == number % 3


def test_a_span_from_before_the_history_is_an_error_where_that_is_asked(
    published: Published,
) -> None:
    key = b"k1"
    horizon = MODEL.horizon(partition(key, SHARDS))
    for inner in (True, False):
        task = span_task(published.kept, inner=inner, refuse_expired=True)
        known = next(v for v in MODEL.history_of(key) if v.timestamp >= horizon).timestamp
        assert shared(task, span_batches([(key, known, None)], by_shard=False))
        with pytest.raises(
            RetentionExceededError,
            match="a version of the left store that is valid at 0 ms has the foreign key b'nobody'",
        ):
            shared(task, span_batches([(b"nobody", 0, 5)], by_shard=False))
        wide = span_task(published.wide, inner=inner, refuse_expired=True)
        assert len(shared(wide, span_batches([(b"nobody", 0, 5)], by_shard=False))) == (not inner)


def test_long_results_come_in_pieces(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstore_core.spark.join.span_tasks._PIECES", 10)
    given_: list[Span] = [(b"k1", 0, None)] * 9
    (batches,) = span_batches(given_, by_shard=False)
    sizes = [batch.num_rows for batch in span_task(published.wide).join(iter(batches))]
    assert sum(sizes) == 9 * len(WIDE_MODEL.history_of(b"k1"))
    assert len(sizes) > 1
    assert max(sizes) <= 10


# Following newer versions.


def manifest_of(root: Path, version: int, records: list[Record], shards: int) -> None:
    home = Root.at(root)
    made = put_shards(root / f"v{version}", records, WIDE, shards)
    made = tuple(replace(shard, path=shard.path and f"v{version}/{shard.path}") for shard in made)
    manifest = Manifest(
        version, 0, f"job{version}", "append", "rocksdb", shards, WIDE.describe(), made
    )
    home.publish(manifest)


def test_a_task_that_follows_sees_the_newest_version(tmp_path: Path) -> None:
    manifest_of(tmp_path, 1, [Record(b"a", b"1", 10)], 2)
    first = Root.at(tmp_path).load(1)
    source = source_of(tmp_path, first.shards, WIDE, cache_bytes=PLENTY)
    rows: list[Row] = [(b"a", 100)]

    def value(*, follow: bool) -> Any:
        task = task_of(replace(source, follow=follow))
        return joined(task, batches_of(rows, 1, by_shard=False))[0][1]

    assert (value(follow=True), value(follow=False)) == (b"1", b"1")
    manifest_of(tmp_path, 2, [Record(b"a", b"2", 20)], 2)
    assert (value(follow=True), value(follow=False)) == (b"2", b"1")
    assert value(follow=True) == b"2"
    manifest_of(tmp_path, 3, [Record(b"a", b"3", 30)], 4)
    with pytest.raises(
        StateError, match=r"version 3 of .* has partitions=4, but this query started"
    ):
        value(follow=True)
