"""Threads that look up, scan and take snapshots while one commits and the map grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import StoreClosedError
from tests.plugins.lmdb.conftest import OpenDatabase
from tests.plugins.lmdb.support import put, scanned
from tests.support.threads import run_all, running

SECONDS = 2.0
KEYS = [b"%04d" % number for number in range(500)]


def run_beside(readers: list[Callable[[], object]], write: Callable[[int], object]) -> int:
    """Run every reader in a loop of its own while ``write`` writes; how often that was."""
    faults: list[BaseException] = []
    over = threading.Event()

    def loop(read: Callable[[], object]) -> None:
        try:
            while not over.is_set():
                read()
        except BaseException as error:  # noqa: BLE001 - carried to the test
            faults.append(error)

    threads = [threading.Thread(target=loop, args=(read,)) for read in readers]
    for thread in threads:
        thread.start()
    until, number = time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < until and not faults:
            write(number)
            number += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not faults, faults[0]
    return number


@pytest.mark.parametrize("form", ["0.9", "1.0"])
def test_reads_see_whole_commits_and_never_go_back(open_database: OpenDatabase, form: str) -> None:
    database = open_database(map_size_bytes=1 << 20, format_version=form)
    space = database.namespace("default")
    get = space.fast_get

    def write(number: int) -> None:
        grown = {b"grow%d" % number: bytes(300_000)} if number % 50 == 0 else {}
        put(database, {**dict.fromkeys(KEYS, b"%d" % number), **grown})
        # What this thread has committed is what it reads.
        assert space.get(KEYS[0]) == b"%d" % number

    def numbers(values: list[bytes | None]) -> set[int]:
        return {int(value) for value in values if value is not None and len(value) < 9}

    last = [0]

    def look_up() -> None:
        try:
            found = get(KEYS[7])
        except Exception:  # noqa: BLE001 - the short way explains nothing, as core knows
            found = space.get(KEYS[7])
        now = int(found or 0)
        assert now >= last[0]
        last[0] = now

    def scan() -> None:
        assert len(numbers([value for _, value in scanned(space, b"0", b"a")])) == 1
        assert len(numbers([value for _, value in scanned(space, b"0", b"a", reverse=True)])) == 1

    def snapshot() -> None:
        with database.snapshot() as taken:
            then = taken.namespace("default")
            first = numbers([then.get(KEYS[0])])
            time.sleep(0.01)
            assert numbers(then.get_many(KEYS)) == first
            assert numbers([value for _, value in scanned(then, b"0", b"a")]) == first

    write(0)
    before = database._environment.native.info()["map_size"]
    assert run_beside([look_up, scan, scan, snapshot], write) > 50
    assert database._environment.native.info()["map_size"] > before


def test_a_close_while_others_are_inside(open_database: OpenDatabase) -> None:
    """They end with an error, or with what they were at; the process goes on."""
    for _ in range(15):
        database = open_database()
        space = database.namespace("default")
        put(database, dict.fromkeys(KEYS, b"v" * 200))
        begun = threading.Barrier(4)

        def loop(read: Callable[[], object], begun: threading.Barrier = begun) -> None:
            begun.wait()
            with suppress(StoreClosedError):
                while True:
                    read()

        with running(
            partial(loop, lambda space=space: list(map(space.get, KEYS))),
            partial(loop, partial(scanned, space)),
            partial(loop, partial(space.get_many, KEYS)),
        ):
            begun.wait()
            time.sleep(0.01)
            database.close()


def test_writers_take_turns(open_database: OpenDatabase) -> None:
    database = open_database(map_size_bytes=1 << 18)

    def add(thread: int) -> None:
        for number in range(100):
            database.namespace(f"n{thread}")
            key = b"%d-%d" % (thread, number)
            database.write({"default": Rows([key], [bytes(2000)])})

    run_all(*(partial(add, thread) for thread in range(4)))
    assert len(scanned(database.namespace("default"))) == 400
    assert len(database.namespaces()) == 5


def test_a_drop_disturbs_nobody_who_reads(open_database: OpenDatabase) -> None:
    """Moments are begun all the time while a namespace comes and goes."""
    database = open_database()
    put(database, {b"a": b"1"})
    space = database.namespace("default")

    def look_up() -> None:
        assert space.get(b"a") == b"1"

    def open_for_reading() -> None:
        reader = open_database(read_only=True)
        assert reader.namespace("default").get(b"a") == b"1"
        reader.close()

    def come_and_go(number: int) -> None:
        database.namespace("extra")
        database.write({"extra": Rows([b"k"], [b"%d" % number])})
        database.drop_namespace("extra")

    run_beside([look_up, open_for_reading], come_and_go)
    assert database.namespaces() == ["default"]
