"""Each write takes the record of its own task, thread and nesting, whoever else is at work."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kstore_core import Headers, Windowed, open_state, stores
from kstore_core.changelog.whole import without_marks
from kstore_core.errors import StateError
from kstore_core.partition_time import with_partition_time
from kstore_core.testing.interrupter.aims import Arrival
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from kstore_core.types import NOT_PUT
from tests.restore.stores import logs, open_log

COUNT = 60
HOUR = 3_600_000
BASE = 1_000_000
HEADED = stores.timestamped_key_value_with_headers("s")


def spec_of(kind: Kind) -> Any:
    return kind.spec("s") if kind.shape == "key_value" else kind.spec("s", HOUR, HOUR // 2)


class Work:
    """What is written under each record, and what must come of it."""

    def __init__(self, kind: Kind, state: Any, root: Path) -> None:
        self.kind = kind
        self.state = state
        self.store = state.open(spec_of(kind))
        self.root = root

    def record(self, number: int) -> Any:
        """The record of a number, which its time, its headers and its offset tell."""
        return self.state.record(
            topic="in",
            partition=number % 3,
            offset=number,
            timestamp=BASE + number,
            headers=[("n", b"%d" % number)],
        )

    def put(self, number: int) -> None:
        """Write a row with nothing of its own but its key and value."""
        self._set(b"put-%d" % number, b"%d" % number)

    def delete(self, number: int) -> None:
        key = b"del-%d" % number
        if self.kind.shape in ("key_value", "versioned"):
            self.store.delete(key)
        else:
            self._set(key, None)

    def _set(self, key: bytes, value: bytes | None) -> None:
        if self.kind.shape == "window":
            self.store.put(key, value, window_start=BASE)
        elif self.kind.shape == "session":
            self.store.put(Windowed(key, BASE, BASE + 5), value)
        else:
            self.store.put(key, value)

    def check(self, numbers: Iterator[int] | range) -> None:
        """Compare rows, changelog and position with the records."""
        known = list(numbers)
        for number in known:
            assert self._found(number) == self.kind.record(
                b"%d" % number, BASE + number, [("n", b"%d" % number)]
            )
        furthest = {at: max(n for n in known if n % 3 == at) for at in {n % 3 for n in known}}
        assert self.store.position == {"in": furthest}
        self.state.commit({("in", 0): 1})
        puts, deletes = {}, {}
        with open_log(self.root) as log:
            for batch in log.read():
                for record in without_marks(batch):
                    told = record.timestamp, list(record.headers)
                    if record.value is None:
                        deletes[record.key.split(b"del-")[1].split(b"\0")[0]] = told
                    else:
                        puts[record.value] = told
        keeps = self.kind.format.headers
        wanted = {b"%d" % n: (BASE + n, [("n", b"%d" % n)] if keeps else []) for n in known}
        assert puts == wanted
        assert deletes == wanted

    def _found(self, number: int) -> Any:
        key = b"put-%d" % number
        if self.kind.shape == "window":
            return self.kind.read(self.store.fetch_one(key, BASE))
        if self.kind.shape == "session":
            return self.kind.read(self.store.fetch_session(key, BASE, BASE + 5))
        found = self.store.get(key)
        if self.kind.shape == "versioned":
            headers = found.headers if self.kind.format.headers else ()
            return self.kind.record(found.value, found.timestamp, headers)
        return self.kind.read(found)


@pytest.fixture(params=[*KINDS, *LAYERED], ids=str)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Work]:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        yield Work(request.param, state, tmp_path)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Any]:
    with open_state(tmp_path / "0_0", engine="memory") as opened:
        yield opened


@contextmanager
def eager_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def at_once(one: Callable[[int], Any], count: int = COUNT) -> None:
    await asyncio.gather(*map(one, range(count)))


def test_tasks_of_one_loop(work: Work) -> None:
    """They take turns at random within their records, and one commits now and then."""
    draw = random.Random(6)

    async def one(number: int) -> None:
        with work.record(number):
            for step in draw.sample([work.put, work.delete], 2):
                for _ in range(draw.randrange(4)):
                    await asyncio.sleep(0)
                step(number)
            if not number % 10:
                work.state.commit({("in", 0): number})

    asyncio.run(at_once(one))
    work.check(range(COUNT))


def test_threads(work: Work) -> None:
    together = threading.Barrier(8)

    def one(first: int) -> None:
        together.wait()
        for number in range(first, COUNT, 8):
            with work.record(number):
                work.put(number)
                work.delete(number)
            if number == 40:
                work.state.commit()

    with eager_switches(), ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))
    work.check(range(COUNT))


def test_records_within_records(work: Work) -> None:
    """Of tasks, five deep each; an exception leaves them as a return does."""

    async def one(number: int) -> None:
        with ExitStack() as stack:
            for depth in range(5):
                stack.enter_context(work.record(5 * number + depth))
                await asyncio.sleep(0)
                work.put(5 * number + depth)
        with work.record(5 * number):
            for depth in reversed(range(5)):
                try:
                    with work.record(5 * number + depth):
                        await asyncio.sleep(0)
                        work.delete(5 * number + depth)
                        raise ZeroDivisionError
                except ZeroDivisionError:
                    assert work.state._current_record.current.offset == 5 * number

    asyncio.run(at_once(one, 12))
    assert work.state._current_record.current is None
    work.check(range(60))


def test_a_thread_that_asyncio_starts_has_the_record(work: Work) -> None:
    async def one(number: int) -> None:
        with work.record(number):
            await asyncio.to_thread(work.put, number)
            await asyncio.sleep(0)
            await asyncio.get_running_loop().run_in_executor(
                None, contextvars.copy_context().run, work.delete, number
            )

    with eager_switches():
        asyncio.run(at_once(one, 30))
    work.check(range(30))


def test_a_task_that_is_started_within_a_record_has_it(work: Work) -> None:
    async def one(number: int) -> None:
        with work.record(number):
            async with asyncio.TaskGroup() as group:
                for step in (work.put, work.delete):
                    group.create_task(later(step, number))

    async def later(step: Callable[[int], None], number: int) -> None:
        for _ in range(number % 4):
            await asyncio.sleep(0)
        step(number)

    asyncio.run(at_once(one))
    work.check(range(COUNT))


def test_an_executor_has_no_record(state: Any) -> None:
    """Its threads have contexts of their own, so what a record would lend is missing."""
    store, plain = state.open(HEADED), state.open(stores.key_value("p"))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with state.record(topic="t", partition=0, offset=4, timestamp=9, headers=[("a", b"")]):
            with pytest.raises(TypeError, match="a timestamp is missing"):
                await loop.run_in_executor(None, store.put, b"k", b"v")
            await loop.run_in_executor(None, lambda: store.put(b"k", b"v", timestamp=1))
            await loop.run_in_executor(None, plain.put, b"k", b"v")

    asyncio.run(main())
    assert list(store.get(b"k").headers) == []
    assert store.position == plain.position == {}


def test_two_states_have_a_record_each(tmp_path: Path) -> None:
    with (
        open_state(tmp_path / "a", engine="memory") as first,
        open_state(tmp_path / "b", engine="memory") as second,
    ):
        one, other = first.open(HEADED), second.open(HEADED)

        async def work(number: int) -> None:
            with (
                first.record(topic="a", partition=0, offset=number, timestamp=number),
                second.record(topic="b", partition=1, offset=-1, timestamp=1000 + number),
            ):
                await asyncio.sleep(0)
                one.put(b"%d" % number, b"v")
                with first.record(timestamp=7):
                    await asyncio.sleep(0)
                    one.put(b"in-%d" % number, b"v")
                    other.put(b"%d" % number, b"v")

        asyncio.run(at_once(work))
        for number in range(COUNT):
            assert one.get(b"%d" % number).timestamp == number
            assert one.get(b"in-%d" % number).timestamp == 7
            assert other.get(b"%d" % number).timestamp == 1000 + number
        assert one.position == {"a": {0: COUNT - 1}}
        with first.record(timestamp=1), pytest.raises(TypeError, match="timestamp is missing"):
            other.put(b"k", b"v")


WRITES: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "put": (HEADED, lambda store: store.put(b"k", b"v", timestamp=1, headers=())),
    "put_all": (stores.key_value("s"), lambda store: store.put_all([(b"k", b"v")])),
    "put_if_absent": (
        stores.key_value("s"),
        lambda store: store.put_if_absent(os.urandom(4), b"v"),
    ),
    "delete": (stores.key_value("s"), lambda store: store.delete(b"k")),
    "versioned put": (
        stores.versioned_key_value("s", HOUR),
        lambda store: store.put(b"k", b"v", timestamp=1),
    ),
    "versioned delete": (
        stores.versioned_key_value("s", HOUR),
        lambda store: store.delete(b"k", timestamp=1),
    ),
    "window": (
        stores.window("s", HOUR, 10),
        lambda store: store.put(b"k", b"v", window_start=0),
    ),
    "session": (
        stores.session("s", HOUR),
        lambda store: store.put(Windowed(b"k", 0, 1), b"v"),
    ),
    "session remove": (
        stores.session("s", HOUR),
        lambda store: store.remove(Windowed(b"k", 0, 1)),
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_task_that_outlives_the_record_writes_nothing(state: Any, write: str) -> None:
    """Until it works on a record of its own; the record must not be lent once it is done with."""
    spec, call = WRITES[write]
    store = state.open(spec)

    async def main() -> None:
        done = asyncio.Event()
        with state.record(topic="t", partition=2, offset=41, timestamp=1):
            task = asyncio.create_task(behind(done))
            await asyncio.sleep(0)
        done.set()
        await task

    async def behind(done: asyncio.Event) -> None:
        await done.wait()
        staged = state.staged_bytes
        with pytest.raises(StateError, match=r"0_0: .* in the block of the record t-2@41"):
            call(store)
        assert (state.staged_bytes, store.position) == (staged, {})
        with state.record(timestamp=1):
            call(store)
        with pytest.raises(StateError, match="has ended"):
            call(store)

    asyncio.run(main())
    call(store)  # the loop's own context was never in the record


def test_reads_of_a_task_that_outlives_the_record(state: Any) -> None:
    store = state.open(HEADED)
    with state.record(timestamp=1):
        store.put(b"k", b"v")
        inside = contextvars.copy_context()
    assert inside.run(store.get, b"k").value == b"v"
    assert len(inside.run(lambda: list(store.all()))) == 1
    inside.run(state.commit)


def test_a_generator_that_is_closed_elsewhere(state: Any) -> None:
    """It enters a record in its reader's task, and is left by whoever ends it."""
    store = state.open(HEADED)

    async def records() -> Any:
        for offset in range(3):
            with state.record(topic="t", partition=0, offset=offset, timestamp=offset):
                yield offset

    async def reader(source: Any) -> None:
        async for offset in source:
            store.put(b"%d" % offset, b"v")
            if offset == 1:
                break

    async def main() -> None:
        source = records()
        await reader(source)
        assert state._current_record.current.offset == 1, "as the record is still open"
        await asyncio.create_task(close(source))
        assert state._current_record.current is None
        with pytest.raises(TypeError, match="timestamp is missing"):
            store.put(b"k", b"v")
        with state.record(timestamp=77):
            store.put(b"k", b"v")
        assert state._current_record.current is None

    async def close(source: Any) -> None:
        await source.aclose()

    asyncio.run(main())
    assert [store.get(key).timestamp for key in (b"0", b"1", b"k")] == [0, 1, 77]


def test_records_that_are_left_in_another_order_than_entered(state: Any) -> None:
    """As two generators that take turns do: what is left is never lent again."""
    store = state.open(HEADED)
    for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        records = [state.record(timestamp=number) for number in range(3)]
        for record in records:
            record.__enter__()
        inside = {0, 1, 2}
        for number in order:
            store.put(b"k", b"v")
            assert store.get(b"k").timestamp == max(inside)
            records[number].__exit__(None, None, None)
            inside.remove(number)
        assert state._current_record.current is None
        with pytest.raises(TypeError, match="timestamp is missing"):
            store.put(b"k", b"v")


def test_a_record_that_is_left_in_a_copy_of_its_context(state: Any) -> None:
    record = state.record(timestamp=5)
    record.__enter__()
    contextvars.copy_context().run(record.__exit__, None, None, None)
    assert state._current_record.current is None


@pytest.mark.parametrize("timed", [False, True])
def test_a_signal_at_the_end_of_a_record_leaves_no_record(tmp_path: Path, timed: bool) -> None:
    """Also while the program still refers to the KeyboardInterrupt."""
    headers = with_partition_time(Headers(), read=50, sent=60) if timed else Headers()
    with open_state(tmp_path / "0_0", engine="memory", partition_time=timed) as state:
        store = state.open(HEADED)

        def put_late() -> None:
            with state.record(timestamp=5, headers=headers) as record:
                assert record.timestamp == 5
                store.put(b"k", b"v")
                _ = Arrival(signal.SIGINT).now

        with pytest.raises(KeyboardInterrupt) as caught:
            put_late()
        assert state._current_record.current is None
        with pytest.raises(TypeError, match="timestamp is missing"):
            store.put(b"k", b"v")
        assert store.get(b"k").timestamp == 5
        assert caught.value.__traceback__ is not None


def test_a_record_whose_beginning_raises_is_left(tmp_path: Path) -> None:
    headers = with_partition_time(Headers(), read=50, sent=60)
    with open_state(tmp_path / "0_0", engine="memory", partition_time=True) as state:
        with (
            mock.patch.object(state, "advance", side_effect=OSError("no")),
            pytest.raises(OSError, match="no"),
            state.record(timestamp=5, headers=headers),
        ):
            raise AssertionError("the block was entered")
        assert state._current_record.current is None


def test_a_copy_of_the_context_of_a_record_keeps_no_state(tmp_path: Path) -> None:
    headers = with_partition_time(Headers(), read=50, sent=60)
    with open_state(tmp_path / "0_0", engine="memory", partition_time=True) as state:
        state.open(HEADED)
        record = state.record(timestamp=5, headers=headers)
        with record:
            copied = contextvars.copy_context()
    seen = weakref.ref(state)
    del state, record
    gc.collect()
    assert seen() is None
    assert len(copied)


def test_a_record_that_was_not_entered_or_has_ended_does_nothing_at_its_end(tmp_path: Path) -> None:
    headers = with_partition_time(Headers(), read=50, sent=60)
    with open_state(tmp_path / "0_0", engine="memory", partition_time=True) as state:
        store = state.open(stores.window("w", HOUR, 10))
        record = state.record(timestamp=5, headers=headers)
        record.__exit__(None, None, None)
        assert store.stream_time == -1


def test_a_record_has_one_block(state: Any) -> None:
    record = state.record(timestamp=5)
    with record:
        with pytest.raises(StateError, match=r"only one `with` block; call state\.record"), record:
            raise AssertionError("the block was entered")
        assert state._current_record.current.timestamp == 5
    with pytest.raises(StateError, match="only one `with` block"), record:
        raise AssertionError("the block was entered")
    assert state._current_record.current is None


def test_nothing_is_kept_of_records_and_states(tmp_path: Path) -> None:
    before = len(contextvars.copy_context())
    headers = Headers([("a", b"1")])
    with open_state(tmp_path / "0_0", engine="memory") as state:
        for number in range(10):
            with state.record(timestamp=number, headers=headers):
                assert len(contextvars.copy_context()) == before + 1
    gc.collect()
    assert sys.getrefcount(headers) == 2
    assert len(contextvars.copy_context()) == before


def test_put_all_is_of_one_record(state: Any) -> None:
    """Also where what gives the pairs works on records itself."""
    store = state.open(HEADED)

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        for number in range(3):
            with state.record(topic="other", partition=0, offset=number, timestamp=number):
                yield b"%d" % number, b"v"

    with state.record(topic="t", partition=0, offset=5, timestamp=55, headers=[("a", b"")]):
        store.put_all(pairs())
    assert [store.get(b"%d" % number).timestamp for number in range(3)] == [55, 55, 55]
    assert store.position == {"t": {0: 5}}


class Slow(dict[int, int]):
    """A position whose lookups of one thread take a while."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: threading.Thread | None = None
        self.reached = threading.Event()

    def get(self, key: int, default: Any = None) -> Any:
        found = super().get(key, default)
        if threading.current_thread() is self.slow:
            self.reached.set()
            time.sleep(0.05)
        return found


def test_a_position_never_goes_back(state: Any) -> None:
    """Where two threads move it on, and the one with the lower offset has looked first."""
    store = state.open(stores.key_value("s"))
    store._context.position["t"] = position = Slow()

    def work(offset: int) -> None:
        with state.record(topic="t", partition=0, offset=offset):
            store.put(b"k", b"v")

    position.slow = threading.Thread(target=work, args=(6,))
    position.slow.start()
    assert position.reached.wait(10)
    other = threading.Thread(target=work, args=(7,))
    time.sleep(0.07)  # until the slow one looks for the second time, about to move it
    other.start()
    for thread in (position.slow, other):
        thread.join()
    assert store.position == {"t": {0: 7}}


def test_time_is_not_moved_on_while_a_write_looks_at_it(state: Any) -> None:
    store = state.open(stores.window("s", 100, 10))
    mover = threading.Thread(target=state.advance, args=(50,))
    with store.clock.turn:
        mover.start()
        mover.join(0.05)
        assert store.stream_time == -1
    mover.join()
    assert store.stream_time == 50


def test_partition_time_of_tasks(tmp_path: Path) -> None:
    """Stream time goes on with each record, as it is entered and left, and never back."""
    spec = stores.versioned_key_value("s", 100)
    with open_state(tmp_path / "0_0", engine="memory", partition_time=True) as state:
        store = state.open(spec)
        seen: list[int] = []

        async def one(number: int) -> None:
            headers = with_partition_time((), 1000 + number, 2000 + number)
            with state.record(timestamp=1000 + number, headers=headers):
                await asyncio.sleep(0)
                seen.append(store.stream_time)
                if number:
                    await asyncio.sleep(0)
                    assert store.put(b"k", b"v") == NOT_PUT, "the first record has moved time on"

        asyncio.run(at_once(one, 50))
        assert min(seen) == 1049
        assert seen == sorted(seen)
        assert store.stream_time == 2049
