"""``kstore rescale``: what it prints, and what it refuses before Spark starts."""

from __future__ import annotations

import pytest

from kstore_core import serdes, stores
from kstore_core.codec import partition
from tests.spark.map_state.task_runs import amounts, epoch, make_task
from tests.spark.support.by_hand import publish

SPEC = stores.timestamped_key_value("s", key=serdes.UTF8, value=serdes.UTF8)
KEYS = [f"k{number}" for number in range(12)]


def fill(store, shard):
    for key in KEYS:
        if partition(key.encode(), 2) == shard:
            store.put(key, "v", timestamp=1)


@pytest.fixture
def session(monkeypatch):
    """The session is made by the command, and stopped here unless other tests use it."""
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    there = SparkSession.getActiveSession()
    yield
    made = SparkSession.getActiveSession()
    if there is None and made is not None:
        made.stop()


pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


@pytest.mark.slow
@pytest.mark.usefixtures("session")
def test_a_root_and_a_state(run, tmp_path):
    root = tmp_path / "root with ünï"
    publish(root, SPEC, fill)
    ran = run("rescale", root, "--partitions", 5)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == ["s: moved 12 rows of 2 shards to 5 shards in version 2"]
    assert run("get", root, "s", KEYS[3], "--json").document["value"] == "v"
    ran = run("rescale", root, "--partitions", 1, "--json")
    assert ran.document == {
        "root": str(root),
        "store": "s",
        "before": 5,
        "partitions": 1,
        "rows": 12,
        "version": 3,
        "path": str(root),
    }
    ran = run("rescale", root, "--partitions", 1)
    assert (ran.code, "already has 1 shards" in ran.err) == (2, True)

    task = make_task(tmp_path / "state")
    task.apply(partition(b"a", 4), epoch(1), amounts([("a", 1)]))
    ran = run("rescale", tmp_path / "state", "--partitions", 2, "--store", "totals")
    where = tmp_path / "state" / "live" / "totals" / "rescaled-1"
    assert ran.lines == [f"totals: moved 1 row of 4 shards to 2 shards in {where}"]
    ran = run("rescale", tmp_path / "nothing", "--partitions", 2)
    assert (ran.code, "has no store" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--partitions'"),
        (["--partitions", "0"], "0 is not in the range"),
        (["--partitions", "x"], "'x' is not a valid int"),
        (["--partitions", "2", "--storage", "region"], "'region' is not NAME=VALUE"),
        (["--partitions", "2", "--storage", "=x"], "'=x' is not NAME=VALUE"),
    ],
)
def test_wrong_usage(run, tmp_path, options, message):
    ran = run("rescale", tmp_path, *options)
    assert ran.code == 2
    assert message in ran.err


def test_settings_of_the_storage_are_passed_on(run, monkeypatch):
    from kstore_core.spark.rescale import rescale as module

    given = {}

    def rescale(root, **options):
        given.update(options, root=root)
        return module.Rescaled("s", 1, 2, 0, 2, root)

    monkeypatch.setattr(module, "rescale", rescale)
    ran = run("rescale", "s3://b/s", "--partitions", 2, "--storage", "a=b=c", "--storage", "d=")
    assert (ran.code, given["root"]) == (0, "s3://b/s")
    assert given["storage_options"] == {"a": "b=c", "d": ""}
