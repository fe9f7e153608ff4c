"""docs/options.md has every option with its default."""

import dataclasses
import inspect
import re

import pytest

from kstore_core import open_state
from kstore_core.changelog import LogConfig
from kstore_core.discovery.registry import engine_class
from kstore_core.metrics import REGISTRY
from kstore_core.spark.kafka.options import OPTIONS
from kstore_core.spark.kafka.write_options import WRITE_OPTIONS as KAFKA_WRITE_OPTIONS
from kstore_core.spark.source.options import READ_OPTIONS
from kstore_core.spark.source.write_options import SINK_OPTIONS, WRITE_OPTIONS
from tests.support.pages import DOCS
from tests.support.places import ROOT

TEXT = (DOCS / "options.md").read_text(encoding="utf-8")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "day": 86_400_000}
UNTOLD = {"engine": "recorded", "options": "none", "changelog": "none", "on_restore": "none"}


def table(title):
    """The rows of a section: the second cell by the name in the first one."""
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) ?\| .+ \|$", section, re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def value(cell):
    """The value that a cell shows: a literal, or a number with its unit."""
    literal = re.fullmatch(r"`(.*)`", cell)
    if literal:
        return literal[1]
    number, unit = cell.split()
    return str(int(number) * UNITS[unit])


def shown(default):
    return f'"{default}"' if isinstance(default, str) else repr(default)


def test_open_state():
    rows = table("`open_state`")
    parameters = dict(inspect.signature(open_state).parameters)
    del parameters["path"]
    assert list(rows) == list(parameters)
    assert parameters["metrics"].default is REGISTRY
    assert rows.pop("metrics") == "process-wide"
    for name, cell in UNTOLD.items():
        assert (rows.pop(name), parameters[name].default) == (cell, None)
    for name, cell in rows.items():
        assert value(cell) == shown(parameters[name].default), name


@pytest.mark.parametrize(
    ("title", "options"),
    [
        ("Engine `rocksdb`", engine_class("rocksdb").options_type),
        ("Engine `lmdb`", engine_class("lmdb").options_type),
        ("Changelogs in files", LogConfig),
    ],
)
def test_options_with_defaults(title, options):
    rows = table(title)
    fields = {field.name: field.default for field in dataclasses.fields(options)}
    assert list(rows) == list(fields)
    for name, cell in rows.items():
        assert value(cell) == shown(fields[name]), name


def test_spark():
    assert list(table("Spark: reading")) == ["path", *READ_OPTIONS, "storage.…"]
    assert list(table("Spark: writing")) == ["path", *(WRITE_OPTIONS | SINK_OPTIONS), "storage.…"]


def test_kafka_in_spark():
    rows = table("Spark: Kafka")
    assert list(rows) == list(OPTIONS)
    for name, default in OPTIONS.items():
        if default and name != "minPartitions":
            assert rows[name].replace("`", "").split(";")[0] == default.split(" (")[0]


def test_writing_to_kafka():
    rows = table("Spark: writing to Kafka")
    assert list(rows) == list(KAFKA_WRITE_OPTIONS)
    for name, default in KAFKA_WRITE_OPTIONS.items():
        if default:
            assert rows[name].replace("`", "").split(";")[0] == default.split(" (")[0]


def test_environment_variables():
    named = set(table("Environment variables"))
    read = set()
    for path in [*ROOT.glob("kstore_core/**/*.py"), *ROOT.glob("plugins/**/*.py")]:
        if "testing" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        read |= set(re.findall(r'environ\.(?:get|setdefault)\(\s*"(\w+)"', text))
    assert named == read
