"""Tests that threads read only whole batches while another thread writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kstore_core.engine import Database, Rows
from kstore_core.errors import StoreClosedError
from kstore_core.testing.engine_suite.base import EnginePart, numbered, put, read

KEYS = list(numbered(200))
SECONDS = 0.4
MOST_SECONDS = 20.0
LOOKS = 3
"""The minimum number of reads of each reader, even on a busy machine."""


class ThreadPromises(EnginePart):
    """Tests of a database that several threads read while one thread writes."""

    def test_readers_beside_a_writer_see_whole_batches(self) -> None:
        database = self.open()
        for name in ("default", "other"):
            put(database, dict.fromkeys(KEYS, b"0"), name)
        failures: list[BaseException] = []
        done = threading.Event()
        kinds: tuple[Callable[[Database], None], ...] = (_scan, _starts, _look_up, _snapshot)
        looks = dict.fromkeys(kinds, 0)

        def read_on(look: Callable[[Database], None]) -> None:
            try:
                while not done.is_set():
                    look(database)
                    looks[look] += 1
            except BaseException as error:  # noqa: BLE001 - reported below
                failures.append(error)

        threads = [threading.Thread(target=read_on, args=(look,)) for look in looks]
        for thread in threads:
            thread.start()
        number, begun = 0, time.monotonic()
        try:
            while not failures:
                took = time.monotonic() - begun
                if took > MOST_SECONDS or (took > SECONDS and min(looks.values()) >= LOOKS):
                    break
                number += 1
                rows = Rows(KEYS, [b"%d" % number] * len(KEYS))
                database.write({"default": rows, "other": rows})
        finally:
            done.set()
            for thread in threads:
                thread.join(60)
        assert not [thread for thread in threads if thread.is_alive()], "every reader ends"
        if failures:
            raise failures[0]
        assert read(database.namespace("other")) == [(key, b"%d" % number) for key in KEYS]

    def test_readers_end_when_the_database_is_closed(self) -> None:
        database = self.filled(numbered(5000))
        ends: list[str] = []
        begun = threading.Barrier(4)

        def read_on(reverse: bool) -> None:
            namespace = database.namespace("default")
            begun.wait()
            try:
                while True:
                    assert len(read(namespace.scan(reverse=reverse))) == 5000
                    namespace.get_many(list(numbered(50)))
            except BaseException as error:  # noqa: BLE001 - reported below
                ends.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=read_on, args=(number % 2 == 0,)) for number in range(3)]
        for thread in threads:
            thread.start()
        begun.wait()
        time.sleep(0.05)
        database.close()
        for thread in threads:
            thread.join(60)
        assert not [thread for thread in threads if thread.is_alive()], (
            "every thread ends when the database is closed"
        )
        others = [end for end in ends if not end.startswith(StoreClosedError.__name__)]
        assert not others, f"a read during a close ends with StoreClosedError, not: {others}"
        assert len(read(self.open())) == 5000


def _scan(database: Database) -> None:
    for reverse in (False, True):
        rows = read(database.namespace("default").scan(reverse=reverse))
        assert [key for key, _ in rows] == (KEYS[::-1] if reverse else KEYS), (
            "a read beside a writer finds every row"
        )
        assert len({value for _, value in rows}) == 1, "a scan sees a batch whole or not at all"


def _starts(database: Database) -> None:
    ranges = [(key, key + b"\0") for key in KEYS[::25]]
    begun = database.namespace("default").starts(ranges)
    chunks = [chunk for chunk, _ in begun or () if chunk is not None]
    assert begun is None or len(chunks) == len(ranges), "a read beside a writer finds every row"
    assert len({value for _, value in read(chunks)}) <= 1, "all starts show one batch"


def _look_up(database: Database) -> None:
    namespace = database.namespace("other")
    assert namespace.get(KEYS[7]) is not None, "a row that is written again is never missing"
    assert None not in namespace.get_many(KEYS[::20]), (
        "a row that is written again is never missing"
    )


def _snapshot(database: Database) -> None:
    with database.snapshot() as snapshot:
        values = {
            value for name in ("default", "other") for _, value in read(snapshot.namespace(name))
        }
        assert len(values) == 1, "a snapshot shows one batch in all namespaces"
