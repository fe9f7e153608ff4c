"""Columns that two threads would encode and sort, where no thread can start."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from tests.support.places import ROOT

STACK_BYTES = 1 << 47
"""The size of a thread's stack that no address space has room for."""

CODE = """
import threading
import pyarrow as pa
from kstore_core.codec import arrow_to_log, encode_column, latest_records

try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("no thread")
numbers = range(70_001)
values = pa.array([b"v%d" % number for number in numbers])
times = pa.array(numbers, pa.int64())
encoded = encode_column(values, times)
assert encoded.slice(60_000).equals(encode_column(values.slice(60_000), times.slice(60_000)))
keys = [b"k%d" % (number * 7919 % 50_000) for number in numbers]
latest = latest_records(arrow_to_log(pa.array(keys), values, times, first_offset=0))
assert latest.keys == sorted(set(keys))
print("right")
"""


def test_one_thread_does_both_halves_if_no_other_can_start() -> None:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard != resource.RLIM_INFINITY:
        pytest.skip("the limit of the stack cannot be raised")
    shell = ["/bin/sh", "-c", f'ulimit -Ss {STACK_BYTES >> 10} && exec "$@"', "sh"]
    done = subprocess.run(
        [*shell, sys.executable, "-c", CODE],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n") == ["no thread", "right", ""], done.stderr
