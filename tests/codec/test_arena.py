"""Columns that share large pages have the same content, and live as long as they are held."""

import os
import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from kstore_core import codec
from kstore_core.codec.arrow.arena import Arena
from kstore_core.codec.arrow.decoder import decode_rows

STATUS = Path("/proc/self/status")
ROWS = [
    codec.encode_value_timestamp_headers(b"%d" % i * 20, i, [("k", b"%d" % i)]) for i in range(4096)
]


def columns(rows=ROWS):
    return [part for part in decode_rows(rows, "value_timestamp_headers") if part is not None]


@pytest.mark.parametrize("batches", [1, 3, 60], ids=lambda n: f"{n} batches")
def test_content_and_life(batches):
    expected = columns()
    with Arena():
        made = [part for _ in range(batches) for part in columns()]
    order = list(range(len(made)))
    random.Random(batches).shuffle(order)
    for at in order:
        assert made[at].equals(expected[at % 3])
        made[at].validate(full=True)
        made[at] = None


def test_a_slice_holds_its_memory():
    with Arena():
        for _ in range(40):
            values = columns()[0]
    rest = values.slice(4000)
    del values
    assert rest.to_pylist() == [b"%d" % i * 20 for i in range(4000, 4096)]


def test_a_buffer_that_no_page_has_room_for():
    large = [codec.encode_value_timestamp_headers(bytes(40_000_000), 1, [])]
    with Arena():
        first = [columns() for _ in range(20)][-1]
        value = columns(large)[0]
        last = columns()
    assert value[0].as_py() == bytes(40_000_000)
    assert [part.equals(other) for part, other in zip(first, last, strict=True)] == [True] * 3


def test_scopes_inside_each_other_and_errors():
    with Arena():
        outer = [columns() for _ in range(10)]
        with suppress(ZeroDivisionError), Arena():
            inner = [columns() for _ in range(10)]
            raise ZeroDivisionError
        outer += [columns() for _ in range(10)]
    for parts in [*outer, *inner]:
        assert parts[1].to_pylist() == list(range(4096))


def test_threads():
    found = []

    def work():
        with Arena():
            parts = [columns()[1] for _ in range(50)]
        found.append(pa.chunked_array(parts).combine_chunks().to_pylist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(4096)) * 50] * 4


def status(field):
    """Return a number of this process: of MiB, or of threads."""
    fields = dict(line.split(":") for line in STATUS.read_text().splitlines())
    number = int(fields[field].split()[0])
    return number if field == "Threads" else number // 1024


@pytest.mark.skipif(not STATUS.exists(), reason="reads /proc")
def test_all_memory_is_free_after_the_last_column():
    columns()
    size, threads = status("VmSize"), status("Threads")
    with Arena():
        made = [columns() for _ in range(200)]
    assert status("VmSize") > size + 60
    del made
    deadline = time.monotonic() + 30
    while status("VmSize") > size + 30 or status("Threads") > threads:
        assert time.monotonic() < deadline, (size, threads, STATUS.read_text())
        time.sleep(0.01)


@pytest.mark.skipif(not STATUS.exists(), reason="reads /proc")
@pytest.mark.parametrize("used_mib", [4, 8, 16, 34])
def test_memory_in_advance_is_returned(used_mib):
    columns()
    before, made = status("VmRSS"), []
    with Arena():
        while sum(part.nbytes for parts in made for part in parts) < used_mib << 20:
            made.append(columns())
        time.sleep(0.2)  # The thread requests all pages of the last block, 32 MiB of the largest.
    assert status("VmRSS") <= before + used_mib + 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_the_scope():
    with Arena():
        made = [columns()[1] for _ in range(50)]
        pid = os.fork()
        made += [columns()[1] for _ in range(50)]
        if pid == 0:
            os._exit(0 if all(part.to_pylist() == list(range(4096)) for part in made) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pa.chunked_array(made).combine_chunks().to_pylist() == list(range(4096)) * 100
