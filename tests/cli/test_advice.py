"""What a failing command advises: another command line, which parses as it stands."""

from __future__ import annotations

import re
import shlex
import shutil
from contextlib import closing, nullcontext

import click
import pytest

from kstore_core import open_state, stores
from kstore_core.cli.app import COMMANDS, kstore
from kstore_core.cli.output.advice import Running, adapted
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.state.migration_note import Plan
from tests.cli.support import write_entries
from tests.support.sound import in_one_process

ENGINES = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
ADVISED = re.compile(rf"kstore (?:{'|'.join(COMMANDS)})\b[^;,\"`]*")
WINDOW = stores.timestamped_window("clicks", 60_000, 10, segment_interval_ms=20_000)


def make(root, engine, logs):
    with open_state(root, engine=engine, changelog=logs) as state:
        for name in ("orders", "sound"):
            store = state.open(stores.timestamped_key_value(name))
            for number in range(200):
                store.put(b"k%03d" % number, b"v" * 50, timestamp=number)
        clicks = state.open(WINDOW)
        for start in range(0, 60_000, 5_000):
            clicks.put(b"k", b"v" * 50, timestamp=1, window_start=start)


def files(root, engine, store):
    """The files of a database of the store: of segments the newest."""
    made = make_engine(engine)
    if store in made.parents(root):
        folder = root / store / made.children(root, store)[-1]
    else:
        folder = root / engine / store
    return {path.name: path for path in folder.iterdir() if path.is_file()}


def overwrite(root, engine, store, entry, value):
    write_entries(root, engine, store, {entry: value})


def cut(root, engine, store):
    found = files(root, engine, store)
    file = found[max(one for one in found if one.endswith((".sst", ".log")) or one == "data.mdb")]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])


def flip(root, engine, store):
    """Flip bits of tables; LMDB's pages end or hang whoever reads them, and are overwritten."""
    if engine == "lmdb":
        rubbish(root, engine, store)
        return
    for name, file in files(root, engine, store).items():
        if name.endswith(".sst") or name.startswith("MANIFEST"):
            data = bytearray(file.read_bytes())
            for at in range(10, len(data), 97):
                data[at] ^= 0x40
            file.write_bytes(data)


def lose(root, engine, store):
    for name, file in files(root, engine, store).items():
        if name in ("CURRENT", "data.mdb"):
            file.unlink()


def rubbish(root, engine, store):
    for name, file in files(root, engine, store).items():
        if name in ("CURRENT", "data.mdb"):
            file.write_bytes(b"rubbish")


def two_formats(root, engine, store):
    if store == "clicks":
        return
    made = make_engine(engine)
    with closing(made.open(root, store)) as database:
        for space in ("default", "keyValueWithTimestampAndHeaders"):
            database.namespace(space)
            database.write({space: Rows([b"k"], [b"\x00" + bytes(8) + b"v"])})


DAMAGE = {
    "cut": cut,
    "flip": flip,
    "lose": lose,
    "rubbish": rubbish,
    "two formats": two_formats,
    "spec": lambda *where: overwrite(*where, b"kstore.spec", b"{"),
    "newer spec": lambda *where: overwrite(*where, b"kstore.spec", b'{"version": 99}'),
    "position": lambda *where: overwrite(*where, b"position", b"\x07"),
    "offset": lambda *where: overwrite(*where, b"t-0", b"123"),
    "entry": lambda *where: overwrite(*where, b"nothing", bytes(8)),
    "stream time": lambda *where: overwrite(*where, b"kstore.stream-time", b"1"),
    "migration": lambda root, engine, store: Plan("swap", (store,), engine, engine).write(root),
    "lock": lambda root, *_: (root / ".kstore.lock").write_bytes(b"{"),
    "no lock": lambda root, *_: (root / ".kstore.lock").unlink(),
}

LETHAL = ("cut", "flip", "rubbish")
"""Damage that may end the process that reads it."""

SAYS_NOTHING = ("two formats", "lock", "no lock", "offset", "newer spec", "entry")
"""Damage of which some store is told without a command."""
READING = [
    ["inspect", "ROOT"],
    ["doctor", "ROOT"],
    ["verify", "ROOT", "STORE", "--changelog", "LOGS", "--compare"],
    ["dump", "ROOT", "STORE"],
    ["get", "ROOT", "STORE", "k001"],
    ["history", "ROOT", "STORE", "k001"],
    ["checkpoint", "ROOT", "COPY"],
]
WRITING = [
    ["upgrade", "ROOT", "STORE"],
    ["migrate", "ROOT", "STORE", "--to", "headers"],
    ["restore", "ROOT", "STORE", "--from", "LOGS"],
]


def parsed(words):
    """An advised command line as click takes it; raises what it cannot be."""
    name, *arguments = words
    command = kstore.get_command(None, name)
    with command.make_context(name, arguments) as ctx:
        return ctx.params


def told(ran):
    """The commands that its output advises."""
    text = f"{ran.err}\n{ran.out if ran.code else ''}"
    found = []
    for line in text.splitlines():
        for one in ADVISED.findall(line.replace("…", "")):
            words = shlex.split(one.partition(". ")[0].rstrip(". "))[1:]
            found.append(words)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(("engine", "store"), [("lmdb", "orders"), ("rocksdb", "clicks")])
def test_advice_is_another_command_that_can_be_run(run, sound, tmp_path, engine, damage, store):
    before, logs = sound(engine)
    seen = 0
    for line in [*READING, *WRITING]:
        root = tmp_path / ("read" if line in READING else line[0]) / "app" / "0_0"
        if not root.exists():
            shutil.copytree(before, root)
            DAMAGE[damage](root, engine, store)
        places = {"ROOT": root, "STORE": store, "LOGS": logs, "COPY": tmp_path / "copy"}
        typed = [str(places.get(word, word)) for word in line]
        with nullcontext() if damage in LETHAL else in_one_process():
            ran = run(*typed)
        for words in told(ran):
            seen += 1
            assert words != typed, ran.err + ran.out
            if words[0] == typed[0]:
                assert {one for one in words if one.startswith("--")} - {*typed}, (typed, words)
            assert not {"PATH", "STORE", "KEY"} & {*words}
            parsed([str(logs) if word == "LOGDIR" else word for word in words])
    assert seen or damage in SAYS_NOTHING


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A sound directory and its logs, for an engine; not to be changed."""
    made = {}

    def sound(engine):
        if engine not in made:
            base = tmp_path_factory.mktemp(engine)
            make(base / "app" / "0_0", engine, base / "logs")
            made[engine] = base / "app" / "0_0", base / "logs"
        return made[engine]

    return sound


@pytest.mark.parametrize("damage", ["flip", "rubbish", "spec", "position", "stream time"])
@ENGINES
@pytest.mark.parametrize("store", ["orders", "clicks"])
def test_inspect_shows_the_sound_stores_beside_a_damaged_one(
    run, sound, tmp_path, engine, damage, store
):
    root = tmp_path / "app" / "0_0"
    shutil.copytree(sound(engine)[0], root)
    DAMAGE[damage](root, engine, store)
    ran = run("inspect", root, "--json")
    assert ran.code == 4
    found = {one["name"]: one for one in ran.document["directories"][0]["stores"]}
    assert set(found) == {"orders", "sound", "clicks"}
    for name, one in found.items():
        segments = [segment["damage"] for segment in one["segment_list"] or ()]
        assert bool(one["damage"] or any(segments)) == (name == store)
    assert (found["sound"]["shape"], found["sound"]["known_from"]) == ("key_value", "spec")
    assert f"{store!r} in {root} is damaged" in ran.err
    text = run("inspect", root)
    assert text.code == 4
    assert re.search(r"store\s+sound\n\s+is\s+key-value, timestamped", text.out)
    assert re.search(rf"store\s+{store}\n", text.out)
    assert "damaged" in text.out
    assert "kstore inspect" not in text.out + text.err


def test_inspect_names_every_damaged_store(run, sound, tmp_path):
    root = tmp_path / "app" / "0_0"
    shutil.copytree(sound("lmdb")[0], root)
    for store in ("orders", "clicks"):
        DAMAGE["spec"](root, "lmdb", store)
    ran = run("inspect", root)
    assert ran.code == 4
    for store in ("orders", "clicks"):
        assert f"the store {store!r} in {root} is damaged" in ran.err


@pytest.mark.parametrize("entry", ["kstore.spec", "position", "t-0", "nothing"])
@ENGINES
def test_a_damaged_entry_names_the_store_and_its_path(run, sound, tmp_path, engine, entry):
    root = tmp_path / "app" / "0_0"
    shutil.copytree(sound(engine)[0], root)
    overwrite(root, engine, "orders", entry.encode(), b"{")
    for line in (["dump", root, "orders"], ["get", root, "orders", "k"], ["inspect", root],
                 ["upgrade", root, "orders"], ["restore", root, "orders", "--from",
                 sound(engine)[1] / "app-orders-changelog-0"]):  # fmt: skip
        ran = run(*line)
        assert ran.code == 4, line
        assert f"'{entry}'" in ran.err
        assert "'orders'" in ran.err
        assert str(root / engine / "orders") in ran.err


@pytest.mark.parametrize(
    ("running", "message", "said"),
    [
        (Running(), "see: kstore inspect /a", "see: kstore inspect /a"),
        (Running("dump"), "see: kstore inspect /a", "see: kstore inspect /a"),
        (Running("inspect"), "see: kstore inspect /a", "see: kstore verify /a"),
        (Running("inspect"), "see: kstore inspect '/a b'", "see: kstore verify '/a b'"),
        (Running("inspect"), "see: kstore inspect /a.b. Now", "see: kstore verify /a.b. Now"),
        (Running("verify"), "see: kstore verify /a orders; x", "see: kstore doctor /a; x"),
        (Running("doctor"), "see: kstore doctor /a", "see: kstore verify /a"),
        (
            Running("doctor"),
            "kstore doctor /a --set-aside s",
            "kstore doctor /a --set-aside s",
        ),
        (
            Running("doctor", {}, frozenset({"--set-aside"})),
            "kstore doctor /a --set-aside s",
            "kstore verify /a",
        ),
        (
            Running("upgrade", {"path": "/a", "store": "s"}),
            "Finish it with: kstore upgrade PATH s --to x",
            "Finish it with: kstore upgrade /a s --to x",
        ),
        (
            Running("upgrade", {"path": "/a", "store": "s"}, frozenset({"--to"})),
            "Finish it with: kstore upgrade PATH s --to x",
            "Finish it with: kstore doctor /a",
        ),
        (
            Running("migrate", {"path": "/a", "store": "t"}),
            "go on: kstore migrate /a s",
            "go on: kstore migrate /a s",
        ),
        (
            Running("history", {"path": "/a b", "store": "s", "key": "it's"}),
            "try: kstore get PATH STORE KEY",
            "try: kstore get '/a b' s 'it'\"'\"'s'",
        ),
        (
            Running("verify"),
            "kstore reads only layouts up to 2",
            "kstore reads only layouts up to 2",
        ),
        (Running("engines"), "See: kstore engines", "See: kstore --help"),
    ],
)
def test_what_has_just_failed_is_not_advised(running, message, said):
    assert adapted(message, running) == said


def test_advice_that_does_not_parse_would_be_noticed():
    with pytest.raises(click.UsageError):
        parsed(["inspect", ".", "orders"])
    with pytest.raises(click.UsageError):
        parsed(["doctor", ".", "--nothing"])
