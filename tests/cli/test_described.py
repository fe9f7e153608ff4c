"""Stores that keep no spec: one description serves every command, and a wrong one is named."""

from __future__ import annotations

import json
import shutil
from typing import NamedTuple

import pytest

from kstore_core import open_state
from kstore_core.cli.app import COMMANDS, kstore
from kstore_core.maintenance.verify import verify
from kstore_core.testing.kinds import KINDS, Kind
from tests.cli.support import write_entries
from tests.maintenance.verify.stores import fill

pytestmark = pytest.mark.usefixtures("one_process")


class Case(NamedTuple):
    """A kind of store; of windows with duplicates, too."""

    kind: Kind
    duplicates: bool

    def __str__(self):
        return f"{self.kind}{'_duplicates' * self.duplicates}"

    @property
    def spec(self):
        if self.kind.shape == "key_value":
            return self.kind.spec(str(self))
        duplicates = {"duplicates": True} if self.duplicates else {}
        return self.kind.spec(str(self), 20_000, 5_000, **duplicates)

    def options(self, *without):
        """All options that describe it, but for some."""
        kind, value = self.kind, self.kind.format
        said = "headers" if value.headers else "plain"
        if value.timestamped and not (value.headers or value.versioned):
            said = "timestamped"
        flags = {"--shape": kind.shape.replace("_", "-"), "--format": said}
        if kind.shape != "key_value":
            retention = "--history-retention" if kind.shape == "versioned" else "--retention"
            flags |= {retention: "20s", "--segment-interval": "5s"}
        flags |= {"--window-size": "10ms"} if kind.shape == "window" else {}
        flags |= {"--retain-duplicates": None} if self.duplicates else {}
        flags |= {"--time-ordered": None} if kind.time_ordered else {}
        flags |= {"--without-index": None} if kind.time_ordered and not kind.indexed else {}
        given = [(flag, text) for flag, text in flags.items() if flag not in without]
        return [one for pair in given for one in pair if one is not None]


CASES = [Case(kind, False) for kind in KINDS]
CASES += [Case(kind, True) for kind in KINDS if kind.shape == "window"]
DUPLICATES = [case for case in CASES if case.duplicates]
ORDERED = [case for case in CASES if case.kind.time_ordered]


def forget(root, engine, store):
    """Take away what kstore keeps of a store and Kafka Streams does not: spec and stream time."""
    write_entries(root, engine, store, {b"kstore.spec": None, b"kstore.stream-time": None})


class Home(NamedTuple):
    """A directory with a store of each case that says nothing of itself, and its changelogs."""

    engine: str
    base: object

    @property
    def root(self):
        return self.base / "app" / "0_0"

    def log(self, case):
        return self.base / "logs" / f"app-{case}-changelog-0"

    def copy(self, name):
        """The directory again, copied once, to be changed."""
        copy = self.base / name / "0_0"
        if not copy.is_dir():
            shutil.copytree(self.root, copy)
        return copy


@pytest.fixture(scope="module", params=["lmdb", "rocksdb"])
def home(request, tmp_path_factory):
    home = Home(request.param, tmp_path_factory.mktemp(request.param))
    with open_state(home.root, engine=home.engine, changelog=home.base / "logs") as state:
        for case in CASES:
            fill(state.open(case.spec), case.kind, 1)
        state.commit()
    for case in CASES:
        forget(home.root, home.engine, str(case))
    return home


def dumped(run, root, store, *options):
    ran = run("dump", root, store, *options, "--json")
    assert ran.code == 0, ran.err
    return ran.documents


each_case = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.mark.slow
def test_nothing_is_corrupt_where_nothing_is_described(run, home):
    for command in ("inspect", "doctor", "verify"):
        ran = run(command, home.root)
        assert (ran.code, "corrupt" in ran.out) == (0, False), ran.out
    stores = run("inspect", home.root, "--json").document["directories"][0]["stores"]
    assert {store["name"] for store in stores} == set(map(str, CASES))


@pytest.mark.slow
@each_case
def test_one_description_reads_it(run, home, case):
    options = case.options()
    with open_state(home.root, engine=home.engine, read_only=True) as state:
        store = state.open(case.spec)
        scan = store.fetch_range(None, None) if case.kind.shape == "session" else store.all()
        count = sum(1 for _ in scan)
    found = dumped(run, home.root, str(case), *options)
    assert len(found) == count > 0
    typed = found[0]["key"]
    key = ["--key-hex", typed["hex"]] if isinstance(typed, dict) else [typed]
    times = {
        "window": ["--window-start", found[0].get("start")],
        "session": ["--session-start", found[0].get("start"), "--session-end", found[0].get("end")],
    }.get(case.kind.shape, [])
    assert found[0] in run("get", home.root, case, *key, *options, *times, "--json").documents
    if case.kind.shape != "key_value":
        assert found[0] in run("history", home.root, case, *key, *options, "--json").documents


@each_case
def test_one_description_verifies_and_compares_it(run, home, case):
    logs = ("--changelog", home.base / "logs", "--compare")
    ran = run("verify", home.root, case, *case.options(), *logs)
    assert ran.code == 0, ran.out
    assert " compared" in ran.out


@pytest.mark.slow
@each_case
def test_one_description_changes_it(run, home, tmp_path, case):
    options, wanted = case.options(), dumped(run, home.root, str(case), *case.options())
    log = ("--from", home.log(case))
    restored = home.copy("restored")
    assert run("restore", restored, case, *log, *options).code == 0
    assert dumped(run, restored, str(case), *options) == wanted
    new = tmp_path / "0_0"
    ran = run("restore", new, case, *log, "--engine", home.engine, *options)
    assert ran.code == 0, ran.err
    with open_state(new) as state:
        assert state.stored_spec(str(case)).describes(case.spec)
    upgraded = home.copy("upgraded")
    ran = run("upgrade", upgraded, case, *options, "--json")
    assert ran.code == 0, ran.err
    newer = [one for one in ("headers", "timestamped") if one in ran.document["format"]]
    told = ("--shape", options[1], "--format", *(newer or ["plain"])[:1])
    kept = dumped(run, upgraded, str(case), *case.options("--shape", "--format"), *told)
    assert [row["value"] for row in kept] == [row["value"] for row in wanted]


@pytest.mark.slow
@pytest.mark.parametrize("case", DUPLICATES, ids=str)
def test_duplicates_are_migrated(run, home, tmp_path, case):
    root = tmp_path / "0_0"
    with open_state(root, engine=home.engine) as state:
        fill(state.open(case.spec), case.kind, 1)
    forget(root, home.engine, str(case))
    wanted = dumped(run, root, str(case), *case.options())
    other = {"lmdb": "rocksdb", "rocksdb": "lmdb"}[home.engine]
    arguments = ("migrate", root, case, "--engine", other)
    ran = run(*arguments, *case.options("--retain-duplicates"))
    assert (ran.code, "--retain-duplicates" in ran.err) == (2, True)
    assert run(*arguments, *case.options()).code == 0
    assert dumped(run, root, str(case)) == wanted
    assert verify(root).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", DUPLICATES, ids=str)
def test_duplicates_that_are_not_described_are_asked_for_and_not_corrupt(run, home, tmp_path, case):
    options = case.options("--retain-duplicates")
    ran = run("verify", home.root, case, *options, "--changelog", home.base / "logs", "--compare")
    assert ran.code == 1
    assert "corrupt" not in ran.out
    assert "--retain-duplicates" in ran.out
    ran = run("dump", home.root, case, *options, "--json")
    assert ran.documents == dumped(run, home.root, str(case), *case.options())
    assert "add --retain-duplicates" in ran.err
    log = ("--from", home.log(case))
    for root in (home.copy("restored_so"), tmp_path / "new"):
        ran = run("restore", root, case, *log, *options, "--engine", home.engine)
        assert (ran.code, "--retain-duplicates" in ran.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("case", ORDERED, ids=str)
def test_an_index_that_is_described_wrongly_is_no_damage(run, home, case):
    options = case.options("--without-index")
    if case.kind.indexed:
        options.append("--without-index")
    ran = run("verify", home.root, case, *options)
    assert ran.code == 1, ran.out
    assert ("corrupt" in ran.out, "--without-index" in ran.out) == (False, True)
    for command in ("dump", "upgrade", "migrate") if case.kind.indexed else ():
        ran = run(command, home.root, case, *options)
        assert (ran.code, "leave --without-index out" in ran.err) == (2, True)
    if not case.kind.indexed:
        copy = home.copy("restored_so")
        ran = run("restore", copy, case, "--from", home.log(case), *options)
        assert (ran.code, "add --without-index" in ran.err) == (2, True)


def flags_of(command):
    """Each option of a command, by its names, and what it takes."""
    return {
        option: param.type.to_info_dict()
        for param in command.params
        for option in param.opts
        if option.startswith("--")
    }


def test_every_command_that_takes_a_shape_takes_all_that_describes_one():
    commands = {name: kstore.get_command(None, name) for name in COMMANDS}
    shaped = {name: flags_of(one) for name, one in commands.items() if "--shape" in flags_of(one)}
    assert set(shaped) == {
        "dump", "get", "history", "migrate", "rescale", "restore", "upgrade", "verify"
    }  # fmt: skip
    described = {flag for case in CASES for flag in case.options() if flag.startswith("--")}
    for flags in shaped.values():
        assert {flag: flags.get(flag) for flag in described} == {
            flag: shaped["dump"][flag] for flag in described
        }


def test_a_history_takes_the_retention_by_either_name(run, home):
    case = next(case for case in CASES if case.kind.shape == "versioned")
    options = [one.replace("--history-retention", "--retention") for one in case.options()]
    assert dumped(run, home.root, str(case), *options) == dumped(
        run, home.root, str(case), *case.options()
    )
    ran = run("dump", home.root, case, *options, "--history-retention", "20s", "--json")
    assert json.loads(ran.err)["exit_code"] == 2


GOLDEN = {
    "kv_plain": ("--shape", "key-value"),
    "kv_timestamped": ("--shape", "key-value", "--format", "timestamped"),
    "kv_headers": ("--shape", "key-value", "--format", "headers"),
    "versioned": (
        "--shape", "versioned", "--history-retention", "60s", "--segment-interval", "10s"
    ),
    "window_timestamped": (
        "--shape", "window", "--format", "timestamped", "--retention", "5m", "--window-size", "10s"
    ),
    "window_headers": (
        "--shape", "window", "--format", "headers", "--retention", "5m", "--window-size", "10s"
    ),
    "session_headers": ("--shape", "session", "--format", "headers", "--retention", "5m"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_what_kafka_wrote_is_sound_by_its_description(run, golden, name):
    for arguments in (("inspect",), ("doctor",), ("verify",), ("verify", name, *GOLDEN[name])):
        ran = run(arguments[0], golden(name), *arguments[1:])
        assert ran.code == 0, ran.out
        assert "corrupt" not in ran.out
    assert run("dump", golden(name), name, *GOLDEN[name], "--json").documents
