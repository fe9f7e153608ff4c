"""``kstore migrate``."""

import json
import shutil

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.cli.commands import migrate as command
from kstore_core.serdes import BuiltInSerde
from kstore_core.state.migration_note import Plan, places
from tests.support.golden import unpack

pytestmark = pytest.mark.usefixtures("left_sound")

CUSTOM = BuiltInSerde("my.own", "binary", bytes, bytes)
HEADERS = stores.timestamped_key_value_with_headers("s", key=serdes.UTF8, value=CUSTOM)


@pytest.fixture
def root(tmp_path):
    with open_state(tmp_path / "0_1", engine="rocksdb") as state:
        store = state.open(HEADERS)
        for number in range(5):
            store.put(f"k{number}", b"v", timestamp=number, headers=[("a", b"x")] * number)
    return tmp_path / "0_1"


def test_what_would_be_lost_is_said_and_asked_for(run, root):
    ran = run("migrate", root, "s", "--to", "plain")
    assert (ran.code, ran.out) == (1, "")
    assert "5 timestamps and 10 headers of 4 values would be lost. Nothing" in ran.err
    assert ran.err.endswith(". To migrate anyway, pass --lossy on the command line\n")
    ran = run("migrate", root, "s", "--to", "plain", "--lossy")
    assert (ran.code, ran.err) == (0, "")
    old = places(root).old / "s"
    assert ran.out == (
        "s is plain on rocksdb now: 5 rows; without 10 headers of 4 values and 5 timestamps; "
        f"the old store is in {old}\n"
    )
    dumped = run("dump", root, "s", "--json").documents
    assert dumped == [{"key": f"k{number}", "value": "v"} for number in range(5)]
    with open_state(root) as state:
        assert state.stored_spec("s").value == "my.own"
    before = run("dump", old, "s", "--json").documents
    assert [row["timestamp"] for row in before] == [*range(5)]
    assert run("migrate", root, "s", "--to", "plain").out == (
        "s already has that format and engine; nothing was changed\n"
    )


def test_the_old_store_is_kept_until_it_is_dropped(run, root):
    run("migrate", root, "s", "--to", "plain", "--lossy")
    ran = run("migrate", root, "s", "--to", "headers")
    assert ran.code == 1
    assert f"kstore migrate {root} s --drop-old" in ran.err
    assert run("migrate", root, "s", "--drop-old").out == "s: deleted the old files\n"
    assert run("migrate", root, "s", "--drop-old", "--json").document == {
        "path": str(root),
        "store": "s",
        "dropped": False,
    }
    assert run("migrate", root, "s", "--to", "headers", "--drop-old").code == 0
    assert not places(root).home.exists()


@pytest.mark.parametrize("option", ["--all", "--lossy"])
def test_dropping_the_old_store_takes_no_option_of_a_migration(run, root, option):
    run("migrate", root, "s", "--to", "plain", "--lossy")
    ran = run("migrate", root, "s", "--drop-old", option)
    assert ran.code == 2
    assert "--all and --lossy need --to, --engine or --from-log" in ran.err
    assert run("migrate", root, "s", "--drop-old").out == "s: deleted the old files\n"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("other", 1, "has no store 'other' and no old files of such a store; it has: s"),
        ("..", 2, "'..' is not a valid store name"),
        ("a/b", 2, "'a/b' is not a valid store name"),
        ("", 2, "'' is not a valid store name"),
    ],
)
def test_what_there_is_no_old_store_of(run, root, name, code, said):
    run("migrate", root, "s", "--to", "plain", "--lossy")
    ran = run("migrate", root, name, "--drop-old")
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert (places(root).old / "s").is_dir()


def test_a_file_where_a_migration_has_its_directory(run, root):
    places(root).home.write_text("x")
    ran = run("migrate", root, "s", "--to", "plain", "--lossy")
    assert ran.code == 1
    assert f"{places(root).home} is not a directory" in ran.err
    assert "Move the file away" in ran.err
    assert places(root).home.read_text() == "x"
    assert len(run("dump", root, "s", "--json").documents) == 5


def test_json(run, root):
    assert run("migrate", root, "s", "--engine", "lmdb", "--drop-old", "--json").document == {
        "path": str(root),
        "stores": [
            {
                "store": "s",
                "changed": True,
                "before": "timestamped_headers",
                "format": "timestamped_headers",
                "engine_before": "rocksdb",
                "engine": "lmdb",
                "rows": 5,
                "lost": {"headers": 0, "headed": 0, "timestamps": 0},
                "late": 0,
                "differing": 0,
                "old": None,
            }
        ],
    }
    assert not (root / "rocksdb").exists()


def test_another_engine_is_for_all_stores(run, root):
    with open_state(root) as state:
        state.open(stores.key_value("other")).put(b"k", b"v")
    ran = run("migrate", root, "s", "--engine", "lmdb")
    assert ran.code == 1
    assert "has other stores: other. All stores of a directory" in ran.err
    assert ran.err.endswith(". To migrate all stores together, pass --all on the command line\n")
    document = run("migrate", root, "s", "--engine", "lmdb", "--all", "--json").document
    assert [one["store"] for one in document["stores"]] == ["s", "other"]
    assert run("get", root, "other", "k", "--json").document["value"] == "v"


def test_an_interrupted_swap_is_finished_by_the_same_command(run, root, monkeypatch):
    def stop(progress):
        if progress.step == "put in place":
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "_bar", stop)
    monkeypatch.setattr("kstore_core.cli.output.progress.lines", lambda bar: bar)
    ran = run("migrate", root, "s", "--to", "timestamped", "--lossy")
    assert ran.code == 1
    assert ran.err.startswith("kstore: interrupted; no row of the store 's' is lost")
    monkeypatch.undo()
    for arguments in (("inspect",), ("dump", "s"), ("get", "s", "k1"), ("upgrade", "s")):
        ran = run(arguments[0], root, *arguments[1:])
        assert ran.code == 4
        assert f"Finish the migration with: kstore migrate {root} s" in ran.err
    twin = shutil.copytree(root, root.parent / "twin")
    ran = run("migrate", root, "s")
    assert ran.out.startswith("s: finished the migration of an earlier run; the old store is in ")
    assert run("get", root, "s", "k1", "--json").document["timestamp"] == 1
    again = run("migrate", twin, "s", "--to", "timestamped", "--drop-old")
    assert again.out == "s: finished the migration of an earlier run\n"
    assert not places(twin).home.exists()


def test_there_is_nothing_to_finish(run, root):
    ran = run("migrate", root, "s")
    assert ran.code == 2
    assert "no migration of the store 's' that could be continued" in ran.err
    assert "(--to) or an engine (--engine)" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("missing", "--to", "plain"), 1, "no store 'missing'"),
        (("s", "--to", "nonsense"), 2, "a key-value store cannot have the format nonsense"),
        (("s", "--engine", "nonsense"), 2, "nonsense"),
        (("s", "--engine", "memory"), 2, "stores nothing on disk"),
        (("s", "--to", "plain", "--shape", "window"), 2, "is a key-value store"),
    ],
)
def test_what_is_refused(run, root, arguments, code, said):
    ran = run("migrate", root, *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert not places(root).home.exists()


def test_a_directory_in_use_is_exit_code_3(run, root):
    with open_state(root):
        ran = run("migrate", root, "s", "--to", "plain")
        assert ran.code == 3
        assert ran.err.endswith(". Close it in that process, and try again\n")
        said = run("migrate", root, "s", "--to", "plain", "--json").err
        assert json.loads(said)["message"].endswith(". Close it in that process, and try again")


@pytest.mark.unsound
def test_a_plan_that_cannot_be_read_is_exit_code_4(run, root):
    Plan("copy", ("s",), "rocksdb", "rocksdb").write(root)
    for text in ("{", "[]", '{"version": 99}', '{"version": 1, "step": "copy"}'):
        places(root).plan.write_text(text)
        ran = run("migrate", root, "s", "--to", "plain")
        assert ran.code == 4
        assert "plan.json of a migration cannot be read" in ran.err


def test_a_store_that_spark_wrote_is_refused(run, tmp_path):
    (tmp_path / "_kstore").mkdir()
    assert run("migrate", tmp_path, "s", "--to", "plain").code == 2


def test_a_line_now_and_then(run, root, monkeypatch):
    monkeypatch.setattr("kstore_core.cli.output.progress.PRINT_EVERY_S", 0)
    lines = run("migrate", root, "s", "--to", "plain", "--lossy").err.splitlines()
    assert lines[:2] == [
        "kstore: copy s: 0 of about 5 rows",
        "kstore: copy s: 5 of about 5 rows",
    ]
    assert lines[-1] == "kstore: finish s"


# What Kafka Streams wrote.


def test_a_directory_that_does_not_tell_is_described(run, tmp_path):
    root = unpack("versioned", tmp_path)
    ran = run("migrate", root, "versioned", "--engine", "lmdb")
    assert ran.code == 2
    assert "--shape" in ran.err
    described = ("--shape", "versioned", "--history-retention", "60s", "--segment-interval", "10s")
    before = run("dump", root, "versioned", *described, "--json")
    assert run("migrate", root, "versioned", "--engine", "lmdb", *described).code == 0
    assert run("dump", root, "versioned", "--json").documents == before.documents


@pytest.mark.parametrize(
    ("name", "described"),
    [
        ("kv_headers", ()),
        ("kv_half_migrated_timestamped_to_headers", ()),
        ("window_headers", ("--retention", "5m", "--window-size", "10s")),
        ("session_headers", ("--retention", "5m")),
    ],
)
def test_what_kafka_wrote_goes_back_and_forth(run, tmp_path, name, described):
    root = unpack(name, tmp_path)
    store = run("inspect", root, "--json").document["directories"][0]["stores"][0]["name"]
    before = run("dump", root, store, *described, "--json").documents
    ran = run("migrate", root, store, "--engine", "lmdb", *described)
    assert ran.code == 0, ran.err
    assert run("dump", root, store, "--json").documents == before
    ran = run(
        "migrate", root, store, "--engine", "rocksdb", "--to", "plain", "--lossy", "--drop-old"
    )
    assert ran.code == 0, ran.err
    plain = run("dump", root, store, "--json").documents
    assert [(row["key"], row["value"]) for row in plain] == [
        (row["key"], row["value"]) for row in before
    ]


# From a changelog.


@pytest.fixture
def logged(tmp_path):
    root = tmp_path / "app" / "0_1"
    with open_state(root, engine="rocksdb", changelog=tmp_path / "logs") as state:
        store = state.open(stores.timestamped_key_value_with_headers("s", value=CUSTOM))
        for number in range(12):
            store.put(b"%d" % (number % 4), b"v%d" % number, timestamp=1000 * number,
                      headers=[("n", b"%d" % number)])  # fmt: skip
        state.commit({("in", 0): 11})
    return tmp_path


def test_a_changelog_makes_a_versioned_store(run, logged):
    root = logged / "app" / "0_1"
    asked = ("migrate", root, "s", "--from-log", logged / "logs", "--to", "headers")
    ran = run(*asked)
    assert ran.code == 2
    assert "--history-retention" in ran.err
    ran = run(*asked, "--history-retention", "1h", "--json")
    assert ran.code == 0, ran.err
    (done,) = ran.document["stores"]
    assert (done["before"], done["format"]) == ("timestamped_headers", "versioned_headers")
    assert (done["late"], done["differing"]) == (0, 0)
    history = run("history", root, "s", "1", "--json").documents
    assert [(row["value"], row["timestamp"], row["headers"]) for row in history] == [
        (f"v{number}", 1000 * number, [["n", str(number)]]) for number in (1, 5, 9)
    ]
    with open_state(root) as state:
        assert state.offsets("s") == {("in", 0): 11, ("app-s-changelog", 1): 13}
        assert state.stored_spec("s").value == "my.own"
    again = run(*asked, "--history-retention", "1h")
    assert (again.code, again.out) == (
        0,
        "s already has that format and engine; nothing was changed\n",
    )
    other = run(*asked, "--history-retention", "2h")
    assert other.code == 2
    assert "is a versioned store" in other.err


def test_a_migration_from_a_log_may_drop_the_old_store(run, logged):
    root = logged / "app" / "0_1"
    asked = ("migrate", root, "s", "--from-log", logged / "logs", "--history-retention", "1h")
    assert run(*asked, "--drop-old").code == 0
    assert run("history", root, "s", "1", "--json").documents
    assert not places(root).home.exists()


def test_versions_that_are_not_the_values_of_the_store_are_asked_for(run, logged):
    root = logged / "app" / "0_1"
    with open_state(root, changelog=logged / "logs") as state:
        store = state.open(stores.timestamped_key_value_with_headers("s", value=CUSTOM))
        store.put(b"1", b"late", timestamp=2000)
        store.put(b"9", b"much too late", timestamp=0)
    asked = ("migrate", root, "s", "--from-log", logged / "logs", "--history-retention", "10s")
    ran = run(*asked)
    assert ran.code == 1
    assert "2 keys of the store 's' would have another newest value or no value" in ran.err
    ran = run(*asked, "--lossy")
    assert ran.code == 0
    assert "1 records were too late; 2 keys now have a different newest value" in ran.out
    assert run("get", root, "s", "1", "--json").document["value"] == "v9"


def test_a_store_that_is_not_as_far_as_its_log(run, logged):
    root = logged / "app" / "0_1"
    behind = shutil.copytree(root, logged / "behind")
    with open_state(root, changelog=logged / "logs") as state:
        store = state.open(stores.timestamped_key_value_with_headers("s", value=CUSTOM))
        store.put(b"1", b"more", timestamp=20_000)
    log = logged / "logs" / "app-s-changelog-1"
    asked = ("--from-log", log, "--history-retention", "1h")
    ran = run("migrate", behind, "s", *asked)
    assert ran.code == 1
    assert "kstore restore" in ran.err
    assert run("restore", behind, "s", "--from", log).code == 0
    assert run("migrate", behind, "s", *asked).code == 0


def test_a_window_store_is_not_made_of_a_log(run, logged):
    root = logged / "app" / "0_1"
    with open_state(root, changelog=logged / "logs") as state:
        state.open(stores.window("w", 1000, 10)).put(b"k", b"v", window_start=0)
    ran = run("migrate", root, "w", "--from-log", logged / "logs", "--history-retention", "1h")
    assert ran.code == 2
    assert "only a key-value store can be migrated to a versioned store" in ran.err


def test_kstore_checkpoint(run, root):
    dest = root.parent / "copy"
    with open_state(root) as state:
        state.open(HEADERS).put("staged", b"v", timestamp=1)
        ran = run("checkpoint", root, dest)
        assert (ran.code, ran.out) == (0, f"copied s to {dest}\n")
    assert len(run("dump", dest, "s", "--json").documents) == 5
    ran = run("checkpoint", root, dest)
    assert ran.code == 1
    assert "exists; name a new directory" in ran.err
    ran = run("checkpoint", root, "")
    assert ran.code == 2
    assert "the name of the directory is empty" in ran.err
    assert run("checkpoint", root, dest.with_name("more"), "--json").document == {
        "path": str(root),
        "copy": str(dest.with_name("more")),
        "engine": "rocksdb",
        "stores": ["s"],
    }


def test_a_terminal_is_shown_bars(run_on_a_terminal, root):
    ran = run_on_a_terminal("migrate", root, "s", "--to", "plain", "--lossy")
    assert ran.code == 0
    assert "s is plain" in ran.out
    assert "copy s" in ran.err


def test_json_errors(run, root):
    ran = run("migrate", root, "s", "--to", "plain", "--json")
    assert json.loads(ran.err)["error"] == "FormatDowngradeError"
