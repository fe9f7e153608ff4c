"""What is printed: on narrow terminals, into pipes that are closed, of times and values that are
not there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.cli.commands.demo import _Piped
from kstore_core.cli.output.rendering import format_headers, format_time, format_value
from kstore_core.demo.report import _print
from tests.cli.support import read_terminal

MAIN = "from kstore_core.cli import main; main()"
LONG = "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("output") / "0_0"
    headers = [("trace-identifier", LONG.encode()), ("empty", b""), ("none", None)]
    with open_state(root, engine="rocksdb") as state:
        orders = state.open(
            stores.timestamped_key_value_with_headers("orders", key=serdes.UTF8, value=serdes.UTF8)
        )
        for number in range(2_000):
            text = f"a value of  some words, the {number}th one 1234567890.25"
            orders.put(f"{LONG}-{number:04}", text, timestamp=number, headers=headers)
        orders.put("", "", timestamp=-1)
        rates = state.open(stores.versioned_key_value("rates", 10**9, key=serdes.UTF8))
        for number in range(2_000):
            rates.put("k", b"v%d" % number, timestamp=number * 1000)
        visits = state.open(stores.session("visits", 10**9, key=serdes.UTF8))
        for number in range(2_000):
            visits.put(Windowed("k", number * 1000, number * 1000 + 1), b"")
        state.commit({("a-topic-of-a-long-name", number): number for number in range(40)})
    return root


# Pipes.

LISTS = {
    "dump": ("dump", "ROOT", "orders"),
    "dump --json": ("dump", "ROOT", "orders", "--json"),
    "history": ("history", "ROOT", "rates", "k"),
    "history of sessions": ("history", "ROOT", "visits", "k", "--json"),
    "get": ("get", "ROOT", "orders", f"{LONG}-0001"),
    "inspect": ("inspect", "ROOT"),
    "verify": ("verify", "ROOT"),
    "doctor": ("doctor", "ROOT"),
    "engines": ("engines",),
    "--help": ("--help",),
    "dump --help": ("dump", "--help"),
    "--version": ("--version",),
    "not found": ("get", "ROOT", "orders", "nobody"),
}


def command(arguments, root):
    return [sys.executable, "-c", MAIN, *(str(root) if one == "ROOT" else one for one in arguments)]


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_who_has_read_enough_ends_it_without_a_word(root, name):
    """The reading end is closed before anything is printed: every line meets a closed pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(command(LISTS[name], root), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    said = process.communicate()[1].decode()
    printed = name != "not found"
    assert process.returncode == (141 if printed else 1)
    assert "Traceback" not in said
    assert "BrokenPipe" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("name", ["dump", "history", "--help"])
def test_head(root, name):
    process = subprocess.Popen(
        command(LISTS[name], root), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    head = subprocess.run(["head", "-1"], stdin=process.stdout, capture_output=True, check=True)
    process.stdout.close()
    said = process.communicate()[1]
    assert process.returncode in (0, 141)
    assert (head.stdout.count(b"\n"), said) == (1, b"")


def test_a_pipe_that_takes_errors_too_is_closed(root):
    reading, writing = os.pipe()
    os.close(reading)
    for name in ("dump", "not found"):
        process = subprocess.Popen(command(LISTS[name], root), stdout=writing, stderr=writing)
        assert process.wait() == 141
    os.close(writing)


def test_the_demos_console_tells_of_a_closed_pipe():
    with pytest.raises(BrokenPipeError):
        _Piped().on_broken_pipe()


# Narrow terminals.


def on_a_terminal(arguments, columns):
    """What is printed on a terminal of so many columns."""
    reading, writing = pty.openpty()
    process = subprocess.Popen(
        arguments, stdout=writing, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "dumb"},
    )  # fmt: skip
    os.close(writing)
    out = read_terminal(reading)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", out.decode().replace("\r\n", "\n"))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 40])
@pytest.mark.parametrize(
    "arguments",
    [
        ("dump", "ROOT", "orders", "--limit", "5"),
        ("history", "ROOT", "rates", "k"),
        ("get", "ROOT", "orders", f"{LONG}-0001"),
        ("inspect", "ROOT"),
        ("engines",),
    ],
    ids=lambda given: given[0],
)
def test_no_word_is_broken_or_lost_on_a_narrow_terminal(root, arguments, columns):
    line = command(arguments, root)
    wide = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    narrow = on_a_terminal(line, columns)
    words = set(narrow.split())
    assert not [word for word in wide.split() if word not in words]
    for text in narrow.splitlines():
        assert len(text) <= columns or max(map(len, text.split())) > columns / 3, text


def test_a_terminal_that_is_wide_enough_has_a_table(root):
    line = command(("history", "ROOT", "rates", "k"), root)
    wide = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert on_a_terminal(line, 100) == wide


@pytest.mark.parametrize("columns", [200, 60, 40])
def test_a_table_of_the_demo_keeps_its_words(columns):
    table = Table(title="Totals", box=None)
    for name in ("currency", "transactions", "with the latest rate", "off by"):
        table.add_column(name, justify="right")
    cells = ["CHF", "1,234,567,890", "12,345,678,901.25", "+1,234,567.89"]
    table.add_row(*cells)
    console = Console(width=columns, record=True, file=StringIO())
    _print(console, table)
    text = console.export_text()
    wanted = "Totals currency transactions with the latest rate off by"
    assert {*wanted.split(), *cells} <= {*text.split()}
    assert max(map(len, text.splitlines())) <= columns


# What is not there.


def test_an_unknown_time_is_said_to_be_unknown(run, root):
    assert (format_time(-1), format_time(None), format_time(-2)[:4]) == ("unknown", "", "1969")
    ran = run("get", root, "orders", "")
    assert re.search(r"^timestamp +unknown$", ran.out, re.MULTILINE)
    assert "1969" not in run("dump", root, "orders", "--limit", "1").out
    assert run("get", root, "orders", "", "--json").document["timestamp"] == -1


def test_an_empty_value_is_not_nothing(run, root):
    assert [format_value(one) for one in (b"", "", None)] == ['""', '""', "null"]
    assert format_headers([("a", b""), ("b", None)]) == 'a=""  b=null'
    ran = run("get", root, "orders", "")
    assert re.search(r'^key +""$', ran.out, re.MULTILINE)
    assert re.search(r'^value +""$', ran.out, re.MULTILINE)
    assert run("get", root, "orders", "", "--json").document["value"] == ""
    found = run("history", root, "visits", "k")
    assert found.lines[1].endswith('""')
