"""What runs where the disk is small or nothing can be written; each fails by an assertion."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kstore_core import open_state
from kstore_core.changelog import ChangelogDirectory
from kstore_core.errors import EngineError, KStoreError, StateError, StorageFullError
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW, Kind
from kstore_core.types import Windowed

__all__ = ["SHAPES", "fill", "give_up", "prepare", "read", "refuse_to_write", "spill_full"]

SHAPES: dict[str, Kind] = {
    "key_value": KEY_VALUE[-1],
    "versioned": VERSIONED[-1],
    "window": next(kind for kind in WINDOW if kind.format.headers and not kind.time_ordered),
    "session": SESSION[1],
}
INPUT = ("in", 0)
HEADERS = (("trace-id", b"abc"), ("none", None))
VALUE_BYTES = 10_000


def spec(kind: Kind) -> Any:
    return kind.spec("s") if kind.shape == "key_value" else kind.spec("s", 10**6, 100)


def changes(number: int) -> Iterator[tuple[bytes, int, bytes]]:
    """What a commit writes: keys, times, and values that cannot be compressed."""
    generator = random.Random(number)
    for at in range(20):
        data = b"%d-%d " % (number, at) + generator.randbytes(VALUE_BYTES)
        yield b"%03d-%02d" % (number, at), at * 20, data


def write(kind: Kind, store: Any, number: int) -> None:
    for key, time, data in changes(number):
        put(kind, store, key, time, data)


def put(kind: Kind, store: Any, key: bytes, time: int, data: bytes) -> None:
    value = kind.value(kind.record(data, time, HEADERS))
    if kind.shape == "versioned":
        store.put(key, data, timestamp=time, headers=HEADERS)
    elif kind.shape == "window":
        store.put(key, value, window_start=time)
    elif kind.shape == "session":
        store.put(Windowed(key, time, time), value)
    else:
        store.put(key, value)


def held(kind: Kind, store: Any) -> dict[bytes, bytes]:
    """The values that a store holds, by key."""
    rows = store.fetch_range(None, None) if kind.shape == "session" else store.all()
    if kind.shape in ("window", "session"):
        return {window.key: kind.read(value).data for window, value in rows}
    return {key: value.value for key, value in rows}


def wanted(numbers: range) -> dict[bytes, bytes]:
    return {key: data for number in numbers for key, _, data in changes(number)}


def ballast(disk: Path) -> Path:
    """Take up most of the disk."""
    file = disk / "ballast"
    room = os.statvfs(disk)
    file.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - (7 << 20))))
    return file


def commit_until_full(state: Any, kind: Kind, store: Any) -> int:
    """Commit one number after another until the disk is full; the number that failed."""
    for number in range(1, 1000):
        write(kind, store, number)
        told = refused(lambda number=number: state.commit({INPUT: number}))
        if told is not None:
            assert isinstance(told, StorageFullError), repr(told)
            assert "space" in str(told), told
            assert isinstance(told.__cause__, Exception), told
            return number
    raise AssertionError("the disk is never full")


def refused(use: Callable[[], object]) -> Exception | None:
    """What ``use`` raises."""
    try:
        use()
    except Exception as error:  # noqa: BLE001 - looked at by who asks
        return error
    return None


def opened(place: Path, kind: Kind, engine: str, **how: Any) -> tuple[Any, Any]:
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(contextlib.closing(open_state(place, engine=engine, **how)))
        store = state.open(spec(kind))
        stack.pop_all()
    return state, store


def fill(disk: str, engine: str, shape: str, level: str, logs: str | None = None) -> None:
    """Commit until the disk is full; make room, and go on.

    With ``logs`` there is a changelog on the disk, and only that.
    """
    root, kind = Path(disk), SHAPES[shape]
    place = root / "0_0" if logs is None or logs.startswith(disk) else Path(logs).parent / "0_0"
    changelog = None
    if logs is not None:
        changelog = ChangelogDirectory(logs, application_id="a", partition=0)
    how: dict[str, Any] = {"engine": engine, "durability": level, "changelog": changelog}
    state, store = opened(place, kind, **how)
    state.commit()
    taken = ballast(root)
    number = commit_until_full(state, kind, store)
    assert number > 2, "the disk was full from the start"
    assert store.offsets()[INPUT] == number - 1, "offsets are never ahead"
    assert held(kind, store) == wanted(range(1, number + 1)), "what is staged stays, and is read"
    for _ in range(2):
        told = refused(lambda: state.commit({INPUT: number}))
        assert told is None or isinstance(told, StorageFullError), repr(told)
    taken.unlink()
    state.commit({INPUT: number})
    write(kind, store, number + 1)
    state.commit({INPUT: number + 1})
    state.close()
    state, store = opened(place, kind, **how)
    assert store.offsets()[INPUT] == number + 1
    assert held(kind, store) == wanted(range(1, number + 2))
    state.close()
    if changelog is not None:
        state, store = opened(root / "m_0", kind, "memory", changelog=changelog)
        assert held(kind, store) == wanted(range(1, number + 2))
        state.close()


def give_up(disk: str, engine: str, shape: str, level: str) -> None:
    """Close on a full disk: when there is room again, offsets and rows are those of a commit."""
    root, kind = Path(disk), SHAPES[shape]
    state, store = opened(root / "0_0", kind, engine, durability=level)
    taken = ballast(root)
    number = commit_until_full(state, kind, store)
    if engine == "rocksdb" and level == "changelog":
        taken.unlink()
        told = refused(lambda: state.commit({INPUT: number}))
        if told is not None:  # no log to go on from
            assert isinstance(told, StorageFullError), repr(told)
            assert "close the state directory and open it again" in str(told)
            assert store.offsets()[INPUT] == number - 1
        ballast(root)
    for _ in range(2):  # the second one finds what the first could not close
        told = refused(state.close)
        assert told is None or isinstance(told, EngineError), repr(told)
        told = refused(lambda: opened(root / "0_0", kind, engine)[0].close())
        assert told is None or isinstance(told, KStoreError), repr(told)
    taken.unlink()
    state, store = opened(root / "0_0", kind, engine, durability=level)
    last = store.offsets().get(INPUT, 0)
    assert level == "changelog" or last >= number - 1
    found, least = held(kind, store), wanted(range(1, last + 1))
    assert found.items() >= least.items(), "offsets are never ahead"
    if shape in ("key_value", "versioned"):
        assert found == least
    for replayed in range(last + 1, number + 1):
        write(kind, store, replayed)
        state.commit({INPUT: replayed})
    assert held(kind, store) == wanted(range(1, number + 1))
    state.close()


def spill_full(disk: str, engine: str, shape: str) -> None:
    """A put that has no room to spill is not made, and nothing else is lost."""
    root, kind = Path(disk), SHAPES[shape]
    made: dict[bytes, bytes] = {}
    state, store = opened(root / "0_0", kind, engine, uncommitted_max_bytes=100_000)
    state.commit({INPUT: 0})
    taken = ballast(root)
    for key, time, data in itertools.chain.from_iterable(map(changes, range(1, 1000))):
        told = refused(functools.partial(put, kind, store, key, time, data))
        if told is not None:
            break
        made[key] = data
    assert isinstance(told, StorageFullError), repr(told)
    assert "space" in str(told), told
    assert held(kind, store) == made
    taken.unlink()
    state.commit({INPUT: 1})
    state.close()
    state, store = opened(root / "0_0", kind, engine)
    assert held(kind, store) == made
    state.close()


def refuse_to_write(root: str, engine: str, shape: str) -> None:
    """Where nothing can be written an open for writing is an error, and reading goes on."""
    for name in ("0_0", "new"):
        told = refused(lambda name=name: open_state(Path(root) / name, engine=engine).close())
        assert isinstance(told, StateError), repr(told)
        assert str(Path(root) / name) in str(told), told
        assert "permissions" in str(told), told
    read(root, engine, shape)


def read(root: str, engine: str, shape: str) -> None:
    """All is there, read-only."""
    kind = SHAPES[shape]
    with open_state(Path(root) / "0_0", engine=engine, read_only=True) as state:
        store = state.open(spec(kind))
        assert held(kind, store) == wanted(range(1, 4))
        assert store.offsets() == {INPUT: 3}


def prepare(root: Path, engine: str, shape: str) -> None:
    """What :func:`read` finds."""
    kind = SHAPES[shape]
    with open_state(root / "0_0", engine=engine) as state:
        store = state.open(spec(kind))
        for number in range(1, 4):
            write(kind, store, number)
            state.commit({INPUT: number})
