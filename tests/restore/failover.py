"""A job that counts, by any kind of store: what it reads it adds to, so nothing may come twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kstore_core import StateDirectory, Windowed, open_state
from kstore_core.changelog import FileChangelog, LogConfig, changelog_topic
from kstore_core.changelog.files.segment import list_segments
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import Kind
from tests.restore.killed import KINDS
from tests.restore.stores import APPLICATION, contents, spec_of

KEYS = (b"a", b"a\x00", b"b", b"\xff" * 9)
TOPIC = changelog_topic(APPLICATION, "s")

Input = list[tuple[bytes, int]]
"""Key and time of each record; its place is its offset."""


def some_input(seed: int, count: int) -> Input:
    """Records whose times go on, some of them late, and a few too late."""
    chosen = random.Random(seed)
    return [(chosen.choice(KEYS), max(1, at // 3 - chosen.randrange(14))) for at in range(count)]


def duplicates_of(kind: Kind) -> Kind:
    """The same windows, with many values each."""
    plain = kind.spec
    return replace(kind, spec=lambda *given: plain(*given, duplicates=True))


def count_record(kind: Kind, store: Any, offset: int, record: tuple[bytes, int]) -> None:
    """Add one to what the store has of a key; every fifth time the key goes."""
    key, time = record
    start = time // 5 * 5
    if kind.shape == "versioned":
        found = store.get(key)
        count = 1 if found is None else int(found.value) + 1
        if count % 5:
            more = {"headers": [("o", b"%d" % offset)]} if kind.format.headers else {}
            store.put(key, b"%d" % count, timestamp=time, **more)
        else:
            store.delete(key, timestamp=time)
        return
    if kind.shape == "window":
        many = store.spec.retain_duplicates
        found = None if many else kind.read(store.fetch_one(key, start))
    elif kind.shape == "session":
        found = kind.read(store.fetch_session(key, start, start + 3))
    else:
        found = kind.read(store.get(key))
    count = 1 if found is None else int(found.data) + 1
    made = kind.record(b"%d" % count, time, [("o", b"%d" % offset)]) if count % 5 else None
    if kind.shape == "window":
        store.put(key, kind.value(made), window_start=start)
    elif kind.shape == "session":
        store.put(Windowed(key, start, start + 3), kind.value(made))
    elif made is None:
        store.delete(key)
    else:
        store.put(key, kind.value(made))


def run(
    kind: Kind,
    state: StateDirectory,
    given: Input,
    *,
    every: int,
    until: int | None = None,
    spec: StoreSpec | None = None,
    committed: Callable[[int], object] = lambda offset: None,
) -> Any:
    """Go on with the job where the state says, by the quick start's rule; returns the store."""
    store = state.open(spec or spec_of(kind))
    begin = state.offsets().get(("in", 0), -1) + 1
    end = len(given) if until is None else until
    for offset in range(begin, end):
        with state.record(topic="in", partition=0, offset=offset, timestamp=given[offset][1]):
            count_record(kind, store, offset, given[offset])
        if (offset + 1) % every == 0 or offset == end - 1:
            state.commit({("in", 0): offset})
            committed(offset)
    return store


def undisturbed(kind: Kind, given: Input) -> object:
    """What the store holds after a run that nobody killed."""
    with open_state("undisturbed", engine="memory") as state:
        return contents(kind, run(kind, state, given, every=1))


def open_log(root: Path, **options: Any) -> FileChangelog:
    """The log of the store, in batches of a few records."""
    config = LogConfig(segment_bytes=options.pop("segment_bytes", 10**6), delete_retention_ms=0)
    return FileChangelog(root, TOPIC, batch_bytes=150, config=config, **options)


def size_of(root: Path) -> int:
    """How many bytes the log has, its files one behind the other."""
    return sum(segment.path.stat().st_size for segment in list_segments(root / f"{TOPIC}-0"))


def cut_copy(root: Path, target: Path, size: int) -> Path:
    """The first bytes of a log, as a writer leaves it who was killed when it had so many."""
    (target / f"{TOPIC}-0").mkdir(parents=True)
    for segment in list_segments(root / f"{TOPIC}-0"):
        data = segment.path.read_bytes()[:size]
        if not data and size == 0:
            break
        (target / f"{TOPIC}-0" / segment.path.name).write_bytes(data)
        size -= len(data)
    return target


def count_in(told: Connection, root: Path, engine: str, number: int) -> None:
    """Do the job in the directory that `root` names last, and tell the offset of each commit."""
    kind = KINDS[number]
    place = max(root.glob("home-*"))
    with (
        open_log(root) as log,
        open_state(place / "0_0", engine=engine, changelog=log) as state,
    ):
        run(kind, state, some_input(number, 400), every=6, committed=told.send)


def last_returned(ends: Iterable[tuple[int, int]], size: int) -> int:
    """The last offset whose commit had returned when the log had so many bytes."""
    return max((offset for offset, end in ends if end <= size), default=-1)
