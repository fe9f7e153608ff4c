"""Other processes that read beside a writer: nobody waits, and nobody sees half a commit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.query import KeyQuery, RangeQuery

ENGINES = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])

STORES = """
import sys, time
from kstore_core import Windowed, open_state, stores
KEYS = [b"%02d" % number for number in range(20)]
SPECS = {
    "plain": stores.timestamped_key_value_with_headers("plain"),
    "versions": stores.versioned_key_value_with_headers("versions", 10**9, 50),
    "windows": stores.timestamped_window_with_headers("windows", 10**9, 10, False, 100),
    "sessions": stores.session_with_headers("sessions", 10**9, 100),
}
def write(opened, number):
    data = b"%d" % number
    for at, key in enumerate(KEYS):
        opened["plain"].put(key, data, timestamp=number)
        opened["versions"].put(key, data, timestamp=number)
        opened["windows"].put(key, data, window_start=at * 20, timestamp=number)
        opened["sessions"].put(Windowed(key, at * 20, at * 20 + 5), data)
"""

WRITER = (
    STORES
    + """
path, engine, transactional = sys.argv[1:]
with open_state(path, engine=engine, transactional=transactional == "True") as state:
    opened = {name: state.open(spec.with_cache(2000)) for name, spec in SPECS.items()}
    number = 0
    while True:
        write(opened, number)
        state.commit({("t", 0): number})
        print(number, flush=True)
        number += 1
        opened["plain"].put(KEYS[0], b"-1", timestamp=1)
        state.flush()
        time.sleep(0.002)
"""
)

READER = (
    STORES
    + """
path, seconds = sys.argv[1], float(sys.argv[2])
until, last, seen = time.monotonic() + seconds, {}, 0
def check(name, number):
    assert number >= last.get(name, 0), (name, number, last)
    last[name] = number
while time.monotonic() < until:
    with open_state(path, read_only=True) as state:
        opened = {name: state.open(spec) for name, spec in SPECS.items()}
        plain = {int(record.value) for _, record in opened["plain"].all()}
        assert len(plain) == 1, plain
        assert opened["plain"].offsets() == {("t", 0): max(plain)}
        check("plain", *plain)
        latest = {int(record.value) for _, record in opened["versions"].all()}
        assert len(latest) == 1, latest
        assert [v.timestamp for v in opened["versions"].history(KEYS[3])] == [
            *range(max(latest) + 1)
        ]
        check("versions", *latest)
        rows = [(w.start, v.value) for w, v in opened["windows"].all()]
        rows += [(-w.end, v.aggregation) for w, v in opened["sessions"].fetch_range(None, None)]
        assert len(rows) == 2 * len(KEYS), len(rows)
        segments = {}
        for time_, data in rows:
            segments.setdefault((time_ < 0, abs(time_) // 100), set()).add(int(data))
        for segment, numbers in segments.items():
            assert len(numbers) == 1, (segment, numbers)
            check(segment, *numbers)
    seen += 1
print(seen, max(last.values()))
"""
)


def started(code: str, *arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


@ENGINES
@pytest.mark.parametrize("transactional", [True, False])
def test_readers_see_whole_commits_of_every_shape(
    tmp_path: Path, engine: str, transactional: bool
) -> None:
    path = tmp_path / "0_0"
    writer = started(WRITER, path, engine, transactional)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        readers = [started(READER, path, 2) for _ in range(2)]
        try:
            for reader in readers:
                told, _ = reader.communicate(timeout=90)
                assert reader.returncode == 0
                seen, newest = map(int, told.split())
                assert seen >= 1
                assert newest >= 0
        finally:
            for reader in readers:
                reader.kill()
                reader.communicate()
    finally:
        writer.kill()
        writer.communicate()


@ENGINES
def test_a_reader_does_not_wait_for_a_writer_that_stands_still(tmp_path: Path, engine: str) -> None:
    """Wherever it was stopped, be it in the middle of a commit."""
    path = tmp_path / "0_0"
    plain = stores.timestamped_key_value_with_headers("plain")
    writer = started(WRITER, path, engine, False)
    generator = random.Random(5)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(6):
            time.sleep(generator.uniform(0.001, 0.05))
            os.kill(writer.pid, signal.SIGSTOP)
            try:
                begin = time.monotonic()
                with open_state(path, read_only=True) as state:
                    store = state.open(plain)
                    found = dict(store.query(RangeQuery()).get())
                    assert len(set(found.values())) == 1
                    assert store.query(KeyQuery(b"03")).get() == found[b"03"]
                assert time.monotonic() - begin < 20
            finally:
                os.kill(writer.pid, signal.SIGCONT)
    finally:
        writer.kill()
        writer.communicate()


HOLDER = """
import sys
from kstore_core import open_state, stores
with open_state(sys.argv[1], read_only=True) as state:
    scan = state.open(stores.key_value("s")).all()
    first = next(scan)
    print("reading", flush=True)
    sys.stdin.readline()
    assert {value for _, value in [first, *scan]} == {b"0"}, "a scan is one moment"
print("read")
"""


@ENGINES
def test_a_writer_does_not_wait_for_a_reader_that_stands_still(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "0_0"
    with open_state(path, engine=engine) as state:
        store = state.open(stores.key_value("s"))
        keys = [b"%05d" % number for number in range(3000)]
        store.put_all([(key, b"0") for key in keys])
        state.commit()
        reader = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "reading\n"
            os.kill(reader.pid, signal.SIGSTOP)
            begin = time.monotonic()
            for number in range(1, 20):
                store.put_all([(key, b"%d" % number) for key in keys])
                state.commit()
            assert time.monotonic() - begin < 20
            os.kill(reader.pid, signal.SIGCONT)
            told, _ = reader.communicate("go on\n", timeout=60)
        finally:
            reader.kill()
            reader.communicate()
        assert (reader.returncode, told) == (0, "read\n")
