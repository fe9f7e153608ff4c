"""Random changelogs over n shards, rescaled to m, against a plain model; without Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kstore_core.codec import partition
from kstore_core.errors import StateError
from kstore_core.spark.root.root import Root
from tests.spark.rescale.runs import (
    FOR_EVER,
    SHAPES,
    SHORT,
    cut,
    model,
    random_log,
    read,
    rescale,
    write,
)

COUNTS = [(1, 3), (4, 8), (3, 5), (6, 4), (4, 1), (5, 4)]


def engine_of(name: str, seed: int) -> str:
    return "lmdb" if seed % 2 else "rocksdb"


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_read_is_the_model_and_a_replay_changes_nothing(
    name: str, seed: int, tmp_path: Path
) -> None:
    """Each shard has its own part of each source, so the merged offsets differ for its keys."""
    dice = random.Random(seed * 31 + len(name))
    spec = SHAPES[name](FOR_EVER)
    before, after = COUNTS[dice.randrange(len(COUNTS))]
    log = random_log(spec, seed, 150, dice.randrange(1, 5))
    some = cut(log, dice, before)
    root, twin = Root.at(tmp_path / "root"), Root.at(tmp_path / "twin")
    for one in (root, twin):
        write(one, spec, some, before, engine_of(name, seed))
    assert read(root, spec) == model(spec, some)
    made = rescale(root, spec, after)
    assert (made.mode, made.partitions, made.version) == ("rescale", after, 2)
    assert read(root, spec) == read(root, spec, version=1) == model(spec, some)

    again = write(root, spec, some, after, engine_of(name, seed))
    assert sum(shard.replayed for shard in again.shards) == len(some)
    assert read(root, spec) == model(spec, some)

    whole = write(root, spec, log, after, engine_of(name, seed))
    plain = write(twin, spec, log, before, engine_of(name, seed))
    assert sum(shard.replayed for shard in whole.shards) == len(some)
    assert sum(shard.replayed for shard in plain.shards) == len(some)
    assert read(root, spec) == read(twin, spec) == model(spec, log)


@pytest.mark.parametrize("seed", range(6))
def test_rescales_in_a_row(seed: int, tmp_path: Path) -> None:
    """Between rescales the shards get further parts of the log; every record counts once."""
    dice = random.Random(seed)
    spec = SHAPES["headers"](FOR_EVER)
    root = Root.at(tmp_path)
    log = random_log(spec, seed, 200, 3)
    shards = dice.randrange(1, 7)
    done: set[tuple[int, int]] = set()
    for _ in range(4):
        some = [r for r in cut(log, dice, shards) if (r["partition"], r["offset"]) not in done]
        before = [r for r in log if (r["partition"], r["offset"]) in done]
        newest = write(root, spec, [*before, *some], shards, "lmdb") if before or some else None
        if newest is not None:
            assert sum(shard.replayed for shard in newest.shards) >= len(before)
        done |= {(r["partition"], r["offset"]) for r in some}
        shards = dice.choice([n for n in range(1, 8) if n != shards])
        if root.newest() is not None:
            rescale(root, spec, shards)
    write(root, spec, log, shards, "lmdb")
    assert read(root, spec) == model(spec, log)


def test_there_and_back_again_gives_the_same_offsets(tmp_path: Path) -> None:
    spec = SHAPES["plain"](FOR_EVER)
    root = Root.at(tmp_path)
    log = random_log(spec, 5, 200, 3)
    first = write(root, spec, cut(log, random.Random(7), 4), 4, "rocksdb")
    for shards in (2, 6, 1, 12, 4):
        last = rescale(root, spec, shards)
    assert [shard.offsets for shard in last.shards] == [shard.offsets for shard in first.shards]
    assert not any(shard.ahead for shard in last.shards)
    assert last.format == 3
    assert read(root, spec) == read(root, spec, version=1)


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("plain", "timestamped")])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_no_row_that_could_be_read_is_lost_to_another_stream_time(
    name: str, seed: int, engine: str, tmp_path: Path
) -> None:
    """The shards have different stream times, and some of their rows have expired."""
    spec = SHAPES[name](SHORT)
    root = Root.at(tmp_path)
    log = random_log(spec, seed, 150, 1)
    some = [*log[:60], *cut(log[60:], random.Random(seed), 4)]
    write(root, spec, log[:60], 4, engine)
    before = write(root, spec, some, 4, engine)
    wanted = read(root, spec)
    times = [shard.stream_time for shard in before.shards]
    if spec.shape in ("window", "session"):
        assert len(wanted) < len(model(spec, some))
    rescale(root, spec, 8)
    assert read(root, spec) == wanted
    bounded = engine == "rocksdb" and spec.shape in ("window", "session")
    for shards in (16,) if bounded else (2, 5, 1):
        made = rescale(root, spec, shards)
        assert read(root, spec) == wanted
    if spec.shape != "key_value" and not bounded:
        assert [shard.stream_time for shard in made.shards] == [min(times)]


def test_shards_whose_stream_times_differ_too_much_are_refused(tmp_path: Path) -> None:
    """On RocksDB the newest segment sets a bound to stream time; LMDB has no such bound."""
    spec = SHAPES["window"](SHORT)
    log = [r for r in random_log(spec, 1, 400, 1) if r["value"] is not None]
    fast = partition(b"k1", 2)
    some = [r for r in log if partition(r["key"], 2) == fast or r["start"] < 300]
    for engine in ("lmdb", "rocksdb"):
        root = Root.at(tmp_path / engine)
        write(root, spec, some, 2, engine)
        wanted = read(root, spec)
        if engine == "lmdb":
            rescale(root, spec, 1)
            assert read(root, spec) == wanted
            continue
        with pytest.raises(StateError, match=r"new shard 0 would get .* such as a row of the time"):
            rescale(root, spec, 1)
        assert root.versions() == [1]
        rescale(root, spec, 4)
        assert read(root, spec) == wanted
