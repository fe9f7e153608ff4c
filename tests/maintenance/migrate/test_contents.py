"""A migrated store answers what the old one did, as far as its format can hold it."""

from __future__ import annotations

import random
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.errors import FormatDowngradeError
from kstore_core.maintenance.migrate import Lost, migrate
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import EDGES, KINDS, Kind, Record
from tests.maintenance.migrate.contents import ENGINES, kept
from tests.restore.stores import Op, contents, spec_of, write

pytestmark = pytest.mark.usefixtures("left_sound")

PAIRS = [
    (source, target)
    for source in KINDS
    for target in KINDS
    if (source.family, source.indexed) == (target.family, target.indexed) and source != target
]


def some_ops(seed: int, count: int = 60) -> list[Op]:
    chosen = random.Random(seed)
    return [
        (
            chosen.choice([b"a", b"a\x00", b"b", b"\xff" * 9]),
            chosen.choice([None, b"", b"1", b"xyz"]),
            chosen.randrange(90),
            [("h", chosen.choice([None, b"", b"2"]))] * chosen.randrange(3),
        )
        for _ in range(count)
    ]


def fill(root: Path, engine: str, kind: Kind, spec: StoreSpec, seed: int = 1) -> Any:
    with open_state(root, engine=engine) as state:
        store = state.open(spec)
        with state.record(topic="in", partition=2, offset=7):
            write(kind, store, some_ops(seed))
        state.commit({("in", 2): 7})
        return contents(kind, store)


def losses(source: Kind, target: Kind, answered: Any) -> Lost | None:
    """What is lost of a store all of whose rows can be seen; None where more is on disk."""
    if target.shape != "key_value":
        return None
    records = [Record(*record) for _, record in answered[1]]
    headed = [record for record in records if record.headers and not target.format.headers]
    times = source.format.timestamped and not target.format.timestamped
    return Lost(sum(len(record.headers) for record in headed), len(headed), times * len(records))


@pytest.mark.parametrize(
    ("engine", "source", "target"),
    [(engine, *pair) for engine, pair in zip(cycle(ENGINES), PAIRS, strict=False)],
    ids=str,
)
def test_any_format_becomes_any_other_one(tmp_path, engine, source, target):
    before, after = spec_of(source), spec_of(target)
    answered = fill(tmp_path, engine, source, before)
    if target.format.name in before.format.upgrades:  # it is an older one
        with pytest.raises(FormatDowngradeError, match="would be lost"):
            migrate(tmp_path, "s", to=target.format)
    (done,) = migrate(tmp_path, "s", to=target.format, lossy=True, drop_old=True)
    assert (done.before, done.after, done.engine) == (source.format, target.format, engine)
    lost = losses(source, target, answered)
    assert lost is None or lost == done.lost
    with open_state(tmp_path) as state:
        assert state.stored_spec("s").describes(after)
        store = state.open(after)
        assert contents(target, store) == kept(target, answered)
        assert store.offsets() == {("in", 2): 7}
        assert store.position == {"in": {2: 7}}
    assert not list(tmp_path.glob("*~*"))


@pytest.mark.parametrize(("engine", "other"), [("lmdb", "rocksdb"), ("rocksdb", "lmdb")])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_any_store_goes_to_another_engine(tmp_path, engine, other, kind):
    spec = spec_of(kind)
    answered = fill(tmp_path, engine, kind, spec)
    (done,) = migrate(tmp_path, "s", engine=other)
    assert (done.engine_before, done.engine, done.lost) == (engine, other, Lost())
    with open_state(tmp_path) as state:
        assert state.engine.name == other
        assert contents(kind, state.open(spec)) == answered
        assert state.offsets() == {("in", 2): 7}
    with open_state(done.old, read_only=True) as state:
        assert state.engine.name == engine
        assert contents(kind, state.open(spec)) == answered


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "edge"), list(zip(cycle(ENGINES), EDGES, strict=False)), ids=str
)
def test_a_store_that_is_half_upgraded_is_moved_whole(tmp_path, engine, edge):
    fill(tmp_path, engine, edge.older, spec_of(edge.older))
    answered = fill(tmp_path, engine, edge.newer, spec_of(edge.newer), seed=2)
    other = next(name for name in ENGINES if name != engine)
    (done,) = migrate(tmp_path, "s", engine=other, to=edge.older.format, lossy=True)
    assert (done.before, done.after) == (edge.newer.format, edge.older.format)
    with open_state(tmp_path) as state:
        answers = contents(edge.older, state.open(spec_of(edge.older)))
    assert answers == kept(edge.older, answered)


def test_all_stores_of_a_directory_go_together(tmp_path):
    specs = [kind.spec(f"s{number}") for number, kind in enumerate(KINDS[:3])]
    with open_state(tmp_path, engine="rocksdb") as state:
        for spec, kind in zip(specs, KINDS, strict=False):
            write(kind, state.open(spec), some_ops(3))
        answered = [
            contents(kind, state.open(spec)) for spec, kind in zip(specs, KINDS, strict=False)
        ]
    done = migrate(tmp_path, "s1", engine="lmdb", every_store=True)
    assert [one.store for one in done] == ["s1", "s0", "s2"]
    with open_state(tmp_path) as state:
        assert state.stores() == ["s0", "s1", "s2"]
        for spec, kind, said in zip(specs, KINDS, answered, strict=False):
            assert contents(kind, state.open(spec)) == said
