import json
import os
import pty
import subprocess
import sys
from functools import cache

import pytest
from click.testing import CliRunner

from kstore_core import open_state, serdes, stores
from kstore_core.cli.app import kstore
from tests.cli.support import read_terminal
from tests.support.golden import unpack


class Ran:
    """What a command printed, and its exit code."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err
        self.lines = out.splitlines()

    @property
    def document(self):
        return json.loads(self.out)

    @property
    def documents(self):
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def run():
    """Run ``kstore`` with these arguments; what is not an expected exit is raised."""

    def run(*arguments):
        given = [str(argument) for argument in arguments]
        result = CliRunner().invoke(kstore, given, prog_name="kstore", catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def run_on_a_terminal():
    """Run ``kstore`` in a process whose standard error is a terminal, and read that to its end."""

    def run(*arguments):
        code = "from kstore_core.cli import main; main()"
        reading, writing = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=writing,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        ) as process:
            os.close(writing)
            err = read_terminal(reading)
            out, _ = process.communicate()
        return Ran(process.returncode, out.decode(), err.decode())

    return run


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """A directory that Kafka Streams wrote, unpacked once."""
    return cache(lambda name: unpack(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A directory that kstore wrote, with a store of each format."""
    root = tmp_path_factory.mktemp("state") / "0_0"
    with open_state(root, engine="rocksdb") as state:
        plain = state.open(stores.key_value("plain"))
        plain.put(b"a", b"1")
        plain.put(b"\x00\xff", b"\xfe")
        counts = state.open(
            stores.timestamped_key_value("counts", key=serdes.INT32, value=serdes.INT64)
        )
        for number in range(5):
            counts.put(number, number * 10, timestamp=1000 + number)
        orders = state.open(
            stores.timestamped_key_value_with_headers("orders", key=serdes.UTF8, value=serdes.JSON)
        )
        with state.record(topic="in", partition=3, offset=7, timestamp=5, headers=[]):
            orders.put("o-1", {"total": 12}, timestamp=5, headers=[("a", b"x"), ("a", None)])
        orders.put("\x1b[31m", "red", timestamp=6)
        rates = state.open(
            stores.versioned_key_value_with_headers(
                "rates", 3_600_000, key=serdes.UTF8, value=serdes.FLOAT64
            )
        )
        rates.put("CHF", 1.5, timestamp=1000, headers=[("source", b"ECB")])
        rates.put("CHF", 1.25, timestamp=2000, headers=[("source", b"\xff")])
        rates.delete("CHF", timestamp=3000)
        rates.put("CHF", 1.0, timestamp=4000)
        rates.put("EEK", 15.6466, timestamp=1500)
        rates.delete("EEK", timestamp=2500)
        state.commit({("changelog", 0): 41})
    return root
