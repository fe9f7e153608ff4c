"""``kstore rescale --to``: the task directories of an application, without Spark."""

from __future__ import annotations

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from tests.support.golden import unpack

KEYS = [f"k{number}" for number in range(12)]


@pytest.fixture
def application(tmp_path):
    """Two tasks with a key-value store and a store of another shape."""
    path = tmp_path / "app with ünï"
    for number in range(2):
        with open_state(path / f"0_{number}", engine="lmdb") as state:
            counts = state.open(stores.key_value("counts", key=serdes.UTF8, value=serdes.UTF8))
            windows = state.open(stores.window("windows", 10_000, 10))
            for key in KEYS:
                if partition(key.encode(), 2) == number:
                    counts.put(key, "v")
                    windows.put(key.encode(), b"w", window_start=5)
    return path


def test_all_stores(run, application, tmp_path):
    target = tmp_path / "new"
    ran = run("rescale", application, "--partitions", 3, "--to", target, "--tasks", 2)
    assert (ran.code, ran.lines) == (
        0,
        [
            f"counts: moved 12 rows of 2 tasks to 3 tasks in {target}",
            f"windows: moved 12 rows of 2 tasks to 3 tasks in {target}",
        ],
    )
    task = target / f"0_{partition(b'k3', 3)}"
    assert run("get", task, "counts", "k3", "--json").document["value"] == "v"
    ran = run("rescale", target, "--partitions", 1, "--to", tmp_path / "one", "--store", "counts",
              "--keep-offsets", "--subtopology", "0", "--json")  # fmt: skip
    assert ran.document == {
        "root": str(target),
        "target": str(tmp_path / "one"),
        "before": 3,
        "partitions": 1,
        "stores": [{"store": "counts", "rows": 12}],
    }


def test_a_store_of_kafka_streams_needs_what_cannot_be_seen(run, tmp_path):
    (tmp_path / "app").mkdir()
    for name in ("kv_headers", "session_headers"):
        task = unpack(name, tmp_path / "unpacked")
        target = tmp_path / "app" / "0_0"
        if target.exists():
            (task / name).rename(target / name)
        else:
            task.rename(target)
    arguments = ("rescale", tmp_path / "app", "--partitions", 2, "--to", tmp_path / "new")
    ran = run(*arguments)
    assert ran.code == 2
    assert "the session store 'session_headers' has no stored spec. Add --retention" in ran.err
    assert not (tmp_path / "new").exists()
    described = ("--shape", "session", "--retention", "5m", "--segment-interval", "150s")
    ran = run(*arguments, *described)
    assert (ran.code, ran.lines) == (
        0,
        [
            f"kv_headers: moved 110 rows of 1 task to 2 tasks in {tmp_path / 'new'}",
            f"session_headers: moved 116 rows of 1 task to 2 tasks in {tmp_path / 'new'}",
        ],
    )
    task = tmp_path / "new" / f"0_{partition(b'key-0007', 2)}"
    assert run("get", task, "kv_headers", "key-0007", "--json").document["timestamp"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "has the task directories of an application. Add --to TARGET"),
        (["--tasks", "2"], "apply only to task directories; add --to TARGET"),
        (["--keep-offsets"], "apply only to task directories; add --to TARGET"),
        (["--shape", "window"], "apply only to task directories; add --to TARGET"),
        (["--to", "new", "--storage", "a=b"], "--storage does not apply with --to"),
        (["--to", "new", "--shape", "key-value"], "the directory describes its stores"),
        (["--to", "new", "--tasks", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage(run, application, monkeypatch, tmp_path, options, message):
    monkeypatch.chdir(tmp_path)
    ran = run("rescale", application, "--partitions", 3, *options)
    assert ran.code == 2
    assert message in " ".join(ran.err.replace("│", "").split())
    assert not (tmp_path / "new").exists()


def test_exit_codes(run, application, tmp_path):
    arguments = ("rescale", application, "--to", tmp_path / "new", "--partitions")
    ran = run(*arguments, 2)
    assert (ran.code, "already has 2 tasks" in ran.err) == (2, True)
    ran = run(*arguments, 3, "--tasks", 4)
    assert (ran.code, "must have the 4 tasks" in ran.err) == (1, True)
    with open_state(application / "0_1"):
        ran = run(*arguments, 3)
    assert (ran.code, "is open for writing" in ran.err) == (3, True)
    (application / "_kstore").mkdir()
    ran = run(*arguments, 3)
    assert (ran.code, "is a store that Spark wrote" in ran.err) == (2, True)
