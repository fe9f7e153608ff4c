"""get, dump, history and upgrade on window and session stores."""

import json
import shutil

import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.cli.output.rendering import json_value
from kstore_core.discovery.registry import engine_class
from tests.support.golden import manifest, unhex, unhex_headers

HALF = "window_half_migrated_timestamped_to_headers"
WINDOW = ("--retention", "5m", "--window-size", "10s")
SESSION = ("--retention", "300s")
KAFKAS = [
    ("window_timestamped", WINDOW),
    ("window_headers", WINDOW),
    (HALF, WINDOW),
    ("session_headers", SESSION),
]
each_of_kafkas = pytest.mark.parametrize(("name", "options"), KAFKAS)


@pytest.fixture(scope="module", params=["rocksdb", "lmdb"])
def root(request, tmp_path_factory):
    """A directory that kstore wrote."""
    root = tmp_path_factory.mktemp(request.param) / "0_0"
    headers = [("source", b"web")]
    with open_state(root, engine=request.param) as state:
        clicks = state.open(
            stores.timestamped_window_with_headers(
                "clicks", 600_000, 5_000, key=serdes.UTF8, value=serdes.INT64
            )
        )
        for start in (0, 5_000, 60_000, 120_000):
            for key in ("ann", "bob"):
                clicks.put(key, start, window_start=start, timestamp=start + 7, headers=headers)
        many = state.open(stores.window("many", 600_000, 5_000, True, key=serdes.UTF8))
        for value in (b"one", b"two"):
            many.put("ann", value, window_start=5_000)
        visits = state.open(stores.session_with_headers("visits", 600_000, key=serdes.UTF8))
        for key, start, end in (("ann", 0, 100), ("bob", 50, 900), ("ann", 70_000, 90_000)):
            visits.put(Windowed(key, start, end), f"{start}".encode(), headers=headers)
    return root


def wanted(name):
    """What Kafka itself reads, as the commands print it."""
    rows = []
    for line in manifest(name)["reopened"]:
        key, record = line["key"], line["value"]
        row = {
            "key": json_value(unhex(key["key"])),
            "start": key["start"],
            "end": key["end"],
            "value": json_value(unhex(record["value"])),
        }
        if "timestamp" in record:
            row["timestamp"] = record["timestamp"]
        if "headers" in record:
            pairs = unhex_headers(record["headers"])
            row["headers"] = [[header, json_value(data)] for header, data in pairs]
        rows.append(row)
    assert rows
    return rows


# Kafka's own directories.


@each_of_kafkas
def test_dump_prints_what_kafka_reads(run, golden, name, options):
    ran = run("dump", golden(name), name, *options, "--json")
    assert ran.documents == wanted(name)
    assert "according to its namespaces" in ran.err
    assert ("rows still have the format timestamped" in ran.err) is (name == HALF)
    back = run("dump", golden(name), name, *options, "--reverse", "--limit", "7", "--json")
    assert back.documents == wanted(name)[::-1][:7]


@each_of_kafkas
def test_dump_of_a_time_and_of_keys(run, golden, name, options):
    first, last = 1_300_000, 1_400_000

    def in_time(row):
        begins_by = row["start"] <= last
        return begins_by and (row["end"] if name.startswith("session") else row["start"]) >= first

    def dumped(*arguments):
        return run("dump", golden(name), name, *options, *arguments, "--json").documents

    rows = wanted(name)
    times = ("--from", first, "--to", "1970-01-01T00:23:20Z")
    assert dumped(*times) == [row for row in rows if in_time(row)]
    some = [row for row in rows if "key-0003" <= row["key"] <= "key-0005"]
    assert dumped("--key-from", "key-0003", "--key-to", "key-0005") == some
    one = [row for row in rows if row["key"] == "key-0004"]
    assert dumped("--key", "key-0004") == one
    assert dumped("--key", b"key-0004".hex(), "--key-hex", *times) == [*filter(in_time, one)]
    assert 0 < len(dumped(*times)) < len(rows)


@each_of_kafkas
def test_history_and_get_print_what_kafka_reads(run, golden, name, options):
    root, rows = golden(name), [row for row in wanted(name) if row["key"] == "key-0004"]
    by_time = sorted(rows, key=lambda row: (row["end"], row["start"]))
    found = run("history", root, name, "key-0004", *options, "--json").documents
    assert found == by_time
    for row in rows[:3]:
        at = ("--window-start", row["start"])
        if name.startswith("session"):
            at = ("--session-start", row["start"], "--session-end", row["end"])
        assert run("get", root, name, "key-0004", *options, *at, "--json").document == row


@each_of_kafkas
def test_kafkas_directory_is_asked_for_what_it_does_not_say(run, golden, name, options):
    ran = run("dump", golden(name), name)
    assert (ran.code, ran.out) == (2, "")
    for option in options[::2]:
        assert option in ran.err
    assert "--segment-interval" in ran.err
    ran = run("dump", golden(name), name, *options, "--segment-interval", "100s")
    assert ran.code == 2
    assert "does not begin at a multiple of 100000 ms" in ran.err
    wrong = "session" if name.startswith("window") else "window"
    ran = run("dump", golden(name), name, *options, "--shape", wrong)
    assert ran.code == 2
    assert f"is a {name.split('_')[0]} store according to its namespaces" in ran.err


@each_of_kafkas
def test_nothing_is_written(run, golden, name, options):
    def state():
        return {
            path.relative_to(golden(name)): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in golden(name).rglob("*")
        }

    before = state()
    for command in (
        ("inspect",),
        ("dump", name, *options),
        ("history", name, "key-0004", *options),
    ):
        assert run(command[0], golden(name), *command[1:]).code == 0
    assert state() == before


def test_an_upgrade_that_kafka_began_is_finished(run, golden, tmp_path):
    root = tmp_path / "0_0"
    shutil.copytree(golden(HALF), root)
    assert "moved 84 rows of the format timestamped" in run("upgrade", root, HALF).out
    ran = run("dump", root, HALF, *WINDOW, "--json")
    assert ran.documents == wanted(HALF)
    assert "rows still have the format" not in ran.err


def test_a_plain_store_has_to_be_told_apart(run, tmp_path):
    spec = stores.window("w", 300_000, 10_000)
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(spec).put(b"k", b"v", window_start=10_000)
    engine = engine_class("rocksdb")()
    database = engine.open_child(tmp_path, "w", "w.0")
    database.drop_namespace("offsets")  # which holds the spec
    database.close()
    ran = run("dump", tmp_path, "w")
    assert ran.code == 2
    assert "--shape window with --retention and --window-size" in ran.err
    assert "--shape session with --retention" in ran.err
    ran = run("dump", tmp_path, "w", "--shape", "window", *WINDOW, "--json")
    assert ran.document == {"key": "k", "start": 10_000, "end": 20_000, "value": "v"}
    ran = run("upgrade", tmp_path, "w", "--shape", "window", "--json")
    assert ran.document["moved"] == {"plain": 1}


# Directories of kstore.


def test_a_directory_that_says_what_it_holds_needs_no_options(run, root):
    ran = run("dump", root, "clicks", "--key", "ann", "--from", 5_000, "--to", 60_000)
    assert ran.err == ""
    assert [line.split() for line in ran.lines] == [
        ["key", "start", "end", "value", "timestamp", "headers"],
        ["ann", "1970-01-01T00:00:05Z", "1970-01-01T00:00:10Z", "5000",
         "1970-01-01T00:00:05.007Z", "source=web"],
        ["ann", "1970-01-01T00:01:00Z", "1970-01-01T00:01:05Z", "60000",
         "1970-01-01T00:01:00.007Z", "source=web"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (("--key", "bob", "--limit", "1"), [("bob", 0)]),
        (("--key", "bob", "--reverse", "--limit", "1"), [("bob", 120_000)]),
        (("--key-to", "ann", "--from", "60000"), [("ann", 60_000), ("ann", 120_000)]),
        (("--key-from", "b", "--to", "4999"), [("bob", 0)]),
        (("--limit", "0"), []),
    ],
)
def test_dump_of_some_windows(run, root, options, rows):
    found = run("dump", root, "clicks", *options, "--json").documents
    assert [(row["key"], row["start"]) for row in found] == rows


def test_dump_of_sessions(run, root):
    found = run("dump", root, "visits", "--json").documents
    assert found[0] == {
        "key": "ann", "start": 0, "end": 100, "value": "0", "headers": [["source", "web"]]
    }  # fmt: skip
    assert [(row["key"], row["start"]) for row in found] == [
        ("ann", 0), ("ann", 70_000), ("bob", 50)
    ]  # fmt: skip
    meeting = run("dump", root, "visits", "--from", 500, "--to", 80_000, "--json").documents
    assert [(row["key"], row["start"]) for row in meeting] == [("ann", 70_000), ("bob", 50)]


def test_one_window(run, root):
    ran = run("get", root, "clicks", "ann", "--window-start", "1970-01-01T00:00:05Z")
    assert ran.lines == [
        "key        ann",
        "start      1970-01-01T00:00:05Z",
        "end        1970-01-01T00:00:10Z",
        "value      5000",
        "timestamp  1970-01-01T00:00:05.007Z",
        "header     source=web",
    ]
    ran = run("get", root, "clicks", "ann", "--window-start", 1)
    assert ran.code == 1
    assert "at the given time" in ran.err


def test_every_value_of_a_window_that_retains_duplicates(run, root):
    at = ("many", "ann", "--window-start", 5_000)
    found = run("get", root, *at, "--json").documents
    assert [row["value"] for row in found] == ["one", "two"]
    assert run("get", root, *at).out.count("key    ann\n") == 2


def test_one_session(run, root):
    at = ("--session-start", 50, "--session-end", 900)
    assert run("get", root, "visits", "bob", *at, "--json").document["value"] == "50"
    assert run("get", root, "visits", "ann", *at).code == 1


def test_history_of_a_key(run, root):
    found = run("history", root, "clicks", "ann", "--from", 1, "--to", 60_000, "--json").documents
    assert [row["start"] for row in found] == [5_000, 60_000]
    ran = run("history", root, "visits", "ann")
    assert ran.lines[0].split() == ["start", "end", "value", "headers"]
    assert len(ran.lines) == 3
    assert run("history", root, "visits", "ann", "--from", 101, "--to", 69_999).code == 1
    assert run("history", root, "visits", "nobody").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("get", "clicks", "ann"), "--window-start"),
        (("get", "visits", "ann", "--session-start", "5"), "--session-end"),
        (("get", "visits", "ann", "--session-start", "5", "--session-end", "4"), "lies before"),
        (("get", "visits", "ann", "--session-start=-1", "--session-end=4"), "not be negative"),
        (("get", "visits", "ann", "--window-start", "5"), "--window-start does not apply"),
        (("get", "clicks", "ann", "--as-of", "5"), "--as-of does not apply"),
        (("dump", "clicks", "--as-of", "5"), "--as-of does not apply"),
        (("dump", "clicks", "--from", "ann"), "--key-from"),
        (("dump", "clicks", "--from", "5", "--to", "4"), "lies after"),
        (("dump", "clicks", "--key", "a", "--key-from", "b"), "several options give"),
        (("dump", "clicks", "--window-size", "6s"), "leave --window-size out"),
        (("dump", "clicks", "--segment-interval", "6s"), "leave --segment-interval out"),
        (("dump", "clicks", "--history-retention", "6s"), "--history-retention does not apply"),
        (("dump", "visits", "--window-size", "6s"), "--window-size does not apply"),
        (
            ("dump", "clicks", "--shape", "key-value"),
            "is a window store according to its stored spec",
        ),
        (("history", "clicks", "ann", "--from", "5", "--to", "4"), "lies after"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(run, root, arguments, said):
    command, *rest = arguments
    ran = run(command, root, *rest)
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())
    assert json.loads(run(command, root, *rest, "--json").err)["exit_code"] == 2


def test_what_has_expired_is_not_shown(run, root):
    found = run("dump", root, "clicks", "--retention", "60s", "--json").documents
    assert {row["start"] for row in found} == {120_000}


def test_keys_of_a_key_value_store_may_be_given_either_way(run, written):
    for options in (("--from", "1", "--to", "3"), ("--key-from", "1", "--key-to", "3")):
        found = run("dump", written, "counts", *options, "--json").documents
        assert [row["key"] for row in found] == [1, 2, 3]
    found = run("dump", written, "counts", "--key", "2", "--json").documents
    assert [row["key"] for row in found] == [2]
    assert run("dump", written, "counts", "--from", "1", "--key", "2").code == 2
    assert run("dump", written, "counts", "--retention", "5m").code == 2


def test_a_lookup_opens_the_segments_that_it_needs(run, tmp_path, monkeypatch):
    engine = engine_class("rocksdb")
    with open_state(tmp_path, engine="rocksdb") as state:
        store = state.open(stores.window("w", 60_000, 1_000, segment_interval_ms=1_000))
        for start in range(0, 20_000, 1_000):
            store.put(b"k", b"v", window_start=start)
    opened = set()
    usual = engine.open_child

    def open_child(self, root, store, child, **how):
        opened.add(child)
        return usual(self, root, store, child, **how)

    monkeypatch.setattr(engine, "open_child", open_child)
    assert run("get", tmp_path, "w", "k", "--window-start", "3000").code == 0
    assert opened == {"w.3000", "w.19000"}
