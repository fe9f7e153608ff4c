"""``kstore restore``."""

import json

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.changelog import ChangelogDirectory, FileChangelog
from kstore_core.cli.commands import restore as command
from kstore_core.cli.output import progress
from kstore_core.restore.replay import RestoreProgress
from kstore_core.serdes import BuiltInSerde

pytestmark = pytest.mark.usefixtures("left_sound")

TOPIC = "app-s-changelog"
UNKNOWN = "input: unknown, because the log does not contain them\n"
CUSTOM = BuiltInSerde("my.own", "binary", bytes, bytes)


@pytest.fixture
def logged(tmp_path):
    """A store, its log, and what it holds."""
    root = tmp_path / "app" / "0_1"
    with open_state(root, engine="rocksdb", changelog=tmp_path / "logs") as state:
        store = state.open(stores.timestamped_key_value("s", key=serdes.UTF8, value=CUSTOM))
        for number in range(30):
            store.put(f"k{number % 7}", b"%d" % number, timestamp=number)
        state.commit()
    return tmp_path


def contents(root, spec):
    with open_state(root, engine="rocksdb", read_only=True) as state:
        return list(state.open(spec).all())


def test_a_new_directory(run, logged):
    new = logged / "new"
    options = ("--shape", "key-value", "--format", "timestamped", "--engine", "rocksdb")
    ran = run("restore", new, "s", "--from", logged / "logs", *options)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"s contains {TOPIC}-1 up to offset 29: restored 30 records\n{UNKNOWN}"
    spec = stores.timestamped_key_value("s")
    assert contents(new, spec) == contents(logged / "app" / "0_1", spec)


def test_where_the_input_goes_on(run, tmp_path):
    with open_state(
        tmp_path / "app" / "0_1", engine="rocksdb", changelog=tmp_path / "logs"
    ) as state:
        state.open(stores.key_value("s")).put(b"k", b"1")
        state.commit({("orders", 3): 41, ("rates", 1): 7})
    asked = ("restore", tmp_path / "new" / "0_1", "s", "--from", tmp_path / "logs")
    ran = run(*asked, "--shape", "key-value", "--engine", "lmdb")
    assert ran.out.splitlines()[1] == "input: orders-3 up to offset 41, rates-1 up to offset 7"
    for _ in range(2):
        assert run(*asked).out.splitlines()[1].startswith("input: orders-3 up to offset 41")
        assert run(*asked, "--json").document["input"] == [
            {"topic": "orders", "partition": 3, "offset": 41},
            {"topic": "rates", "partition": 1, "offset": 7},
        ]


def test_a_store_that_is_behind_needs_no_options(run, logged):
    root, logs = logged / "app" / "0_1", logged / "logs"
    with FileChangelog(logs, TOPIC, 1) as log:
        log.append(b"k9", b"new", 99)
    arguments = ("restore", root, "s", "--from", logs / f"{TOPIC}-1", "--json")
    assert run(*arguments).document == {
        "path": str(root),
        "store": "s",
        "topic": TOPIC,
        "partition": 1,
        "offset": 30,
        "records": 1,
        "late": 0,
        "rows": 1,
        "input": None,
    }
    assert run(*arguments).document["records"] == 0
    with open_state(root) as state:
        assert state.stored_spec("s").value == "my.own"  # what it says of itself has not changed
        assert state.open(stores.timestamped_key_value("s")).get(b"k9").value == b"new"


@pytest.mark.parametrize(
    ("spec", "options", "put"),
    [
        (
            stores.versioned_key_value_with_headers("s", 60_000),
            ("--shape", "versioned", "--retention", "60s", "--format", "headers"),
            lambda store: store.put(b"k", b"v", timestamp=5),
        ),
        (
            stores.window("s", 60_000, 10_000, retain_duplicates=True),
            ("--shape", "window", "--retention", "60s", "--window-size", "10s",
             "--retain-duplicates"),
            lambda store: store.put(b"k", b"v", window_start=5),
        ),
        (
            stores.session("s", 60_000, 5000),
            ("--shape", "session", "--retention", "60s", "--segment-interval", "5s"),
            lambda store: store.put(__import__("kstore_core").Windowed(b"k", 1, 2), b"v"),
        ),
    ],
    ids=lambda given: getattr(given, "shape", ""),
)  # fmt: skip
def test_every_shape(run, tmp_path, spec, options, put):
    logs = ChangelogDirectory(tmp_path / "logs", application_id="app", partition=0)
    with open_state(tmp_path / "old", engine="memory", changelog=logs) as state:
        put(state.open(spec))
    ran = run("restore", tmp_path / "new", "s", "--from", tmp_path / "logs", "--engine", "rocksdb",
              *options)  # fmt: skip
    assert ran.out == f"s contains app-s-changelog-0 up to offset 0: restored 1 records\n{UNKNOWN}"
    with open_state(tmp_path / "new") as state:
        assert state.stored_spec("s").describes(spec)


def test_of_several_partitions_the_tasks(run, logged):
    FileChangelog(logged / "logs", TOPIC, 0).close()
    FileChangelog(logged / "logs", "other-t-changelog", 1).close()
    ran = run("restore", logged / "app" / "0_1", "s", "--from", logged / "logs")
    assert ran.out == f"s contains {TOPIC}-1 up to offset 29: restored 0 records\n{UNKNOWN}"
    FileChangelog(logged / "logs", "b-s-changelog", 1).close()
    ran = run("restore", logged / "app" / "0_1", "s", "--from", logged / "logs")
    assert ran.code == 0  # the application's own
    (logged / "app").rename(logged / "copy")
    ran = run("restore", logged / "copy" / "0_1", "s", "--from", logged / "logs")
    assert ran.code == 1
    assert ran.err == (
        f"kstore: {logged / 'logs'} has several logs of a store 's' (found: {TOPIC}-1, "
        "b-s-changelog-1); name a log with --from\n"
    )


def test_a_log_that_may_be_another_stores_is_taken_only_by_name(run, tmp_path):
    logs = tmp_path / "logs"
    with open_state(tmp_path / "app" / "0_1", engine="lmdb", changelog=logs) as state:
        state.open(stores.key_value("b-a")).put(b"k", b"v")
    new = ("a", "--engine", "lmdb", "--shape", "key-value", "--from")
    for root in (tmp_path / "app" / "0_1", tmp_path / "n"):
        ran = run("restore", root, *new, logs)
        assert ran.code == 1
        assert ran.err == (
            f"kstore: the name of app-b-a-changelog-1 in {logs} fits the store 'a' and also the "
            "store 'b-a'. If the log belongs to 'a', pass its directory: --from "
            f"{logs / 'app-b-a-changelog-1'}\n"
        )
    assert not (tmp_path / "n").exists()
    assert run("restore", tmp_path / "n", *new, logs / "app-b-a-changelog-1").code == 0
    assert run("restore", tmp_path / "app-b" / "0_1", *new, logs).code == 0
    assert run("restore", tmp_path / "app" / "0_1", "b-a", "--from", logs).code == 0


def test_the_log_of_another_partition_is_taken_only_by_name(run, logged):
    new = (logged / "app" / "0_7", "s", "--engine", "lmdb", "--shape", "key-value", "--format",
           "timestamped", "--from")  # fmt: skip
    ran = run("restore", *new, logged / "logs")
    assert ran.code == 1
    assert ran.err == (
        f"kstore: {logged / 'logs'} has no log of the partition 7 of a store 's' (found: "
        f"{TOPIC}-1); name a log with --from\n"
    )
    assert not (logged / "app" / "0_7").exists()
    assert run("restore", *new, logged / "logs" / f"{TOPIC}-1").code == 0


def test_the_log_of_another_store(run, logged):
    logs = logged / "logs"
    with open_state(logged / "app" / "0_1", changelog=logs) as state:
        state.open(stores.window("w", 60_000, 10_000)).put(b"k", b"v", window_start=5)
    new = ("--engine", "lmdb", "--shape", "key-value", "--from", logs / "app-w-changelog-1")
    ran = run("restore", logged / "n", "a", *new)
    assert ran.code == 2
    assert ran.err == (
        "kstore: app-w-changelog does not have the name of a changelog of the store 'a'. Such a "
        "name ends in -a-changelog. Name the changelog of the store, or add --any-topic if "
        "app-w-changelog is its changelog\n"
    )
    assert not (logged / "n").exists()
    assert run("restore", logged / "n", "a", *new, "--any-topic").code == 0


def test_refusals(run, logged):
    root, logs = logged / "app" / "0_1", logged / "logs"
    new = (logged / "n", "s", "--from", logs, "--engine", "lmdb")
    cases = [
        ((root, "t", "--from", logs), 1, "has no log of a store 't'; name a log with --from"),
        ((logged / "n", "s", "--from", logs), 2, "name its engine with --engine"),
        (
            (logged / "n", "s", "--from", logs, "--engine", "rocksdb"),
            2,
            "the store 's' has no stored spec. Add --shape",
        ),
        (
            (logged / "n", "s", "--from", logs, "--engine", "rocksdb", "--shape", "window"),
            2,
            "a window store needs --retention and --window-size; pass a duration, such as 30d",
        ),
        (
            (logged / "n", "s", "--from", logs, "--engine", "memory", "--shape", "key-value"),
            2,
            "stores nothing on disk",
        ),
        (
            (*new, "--shape", "versioned", "--history-retention", "5s", "--time-ordered"),
            2,
            "leave out --time-ordered",
        ),
        (
            (*new, "--shape", "session", "--retention", "5s", "--without-index"),
            2,
            "does not apply without --time-ordered",
        ),
        (
            (root, "s", "--from", logs, "--shape", "key-value", "--retention", "5s"),
            2,
            "are not allowed; leave out --shape, --retention",
        ),
        ((root, "s", "--from", logged / "nowhere"), 2, "does not exist"),
        (("", "s", "--from", logs), 2, "the name of the directory is empty"),
    ]
    for arguments, code, message in cases:
        ran = run("restore", *arguments)
        assert ran.code == code, ran.err
        assert message in ran.err
    assert not (logged / "n").exists()


def test_another_log_is_refused(run, logged, tmp_path):
    with FileChangelog(tmp_path / "short", TOPIC, 1) as log:
        log.append(b"k", b"v", 1)
    ran = run("restore", logged / "app" / "0_1", "s", "--from", tmp_path / "short", "--json")
    assert ran.code == 4
    assert json.loads(ran.err)["error"] == "InconsistentStateError"


def only_file(logged):
    (file,) = (logged / "logs" / f"{TOPIC}-1").glob("*.log")
    return file


def test_a_log_that_is_zeroed_is_not_empty(run, logged):
    """Into the store or into a new one, verified or looked at: nobody calls it sound or empty."""
    file, root = only_file(logged), logged / "app" / "0_1"
    zeros = bytes(file.stat().st_size)
    file.write_bytes(zeros)
    options = ("--shape", "key-value", "--format", "timestamped", "--engine", "rocksdb")
    for arguments in ((root, "s"), (logged / "new" / "0_1", "s")):
        more = options if arguments[0] != root else ()
        ran = run("restore", *arguments, "--from", file.parent, *more)
        assert (ran.code, ran.out) == (4, "")
        assert f"{len(zeros)} zero bytes" in ran.err
        assert "Nothing was changed" in ran.err
    assert not (logged / "new").exists()
    for looked in ("verify", "doctor"):
        ran = run(looked, root, "--changelog", logged / "logs")
        assert ran.code == 4
        assert "the store contains the log up to offset 29" in ran.out
    assert run("doctor", root).code == 0, "without the log there is nothing to say"
    assert file.read_bytes() == zeros


def test_a_log_of_half_a_batch_is_not_empty(run, logged):
    file = only_file(logged)
    file.write_bytes(file.read_bytes()[:50])
    (file.parent / ".kstore.start").unlink()
    options = ("--shape", "key-value", "--engine", "rocksdb")
    ran = run("restore", logged / "new", "s", "--from", file.parent, *options)
    assert (ran.code, ran.out) == (1, "")
    assert "no whole batch, but 50 bytes of an incomplete batch" in ran.err
    assert not (logged / "new").exists()
    (logged / "new").mkdir()
    ran = run("restore", logged / "new", "s", "--from", file.parent, *options)
    assert (ran.code, ran.out) == (1, "")


def test_interrupted(run, logged, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("kstore_core.state.StateDirectory.restore", interrupt)
    ran = run("restore", logged / "app" / "0_1", "s", "--from", logged / "logs")
    assert ran.code == 1
    assert ran.err.startswith("kstore: interrupted; the rows restored so far are committed.")


def test_now_and_then_a_line(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PRINT_EVERY_S", 0)
    progress.lines(command._bar)(RestoreProgress("s", "t", 3, 5, 9, 20, 4))
    assert capsys.readouterr().err == "kstore: t-3: 4 records, up to offset 9 of 20\n"


def test_a_bar_on_a_terminal(run_on_a_terminal, logged):
    ran = run_on_a_terminal(
        "restore",
        logged / "new",
        "s",
        "--from",
        logged / "logs",
        "--engine",
        "rocksdb",
        "--shape",
        "key-value",
    )
    assert ran.code == 0
    assert "restored 30 records" in ran.out
    assert "30/30" in ran.err
