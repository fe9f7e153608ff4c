"""``kstore doctor``: each thing that it looks for, made and found; and setting a store aside."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.errors import EngineError, EngineLockedError, SpecError, StateError
from kstore_core.maintenance.doctor import environment as around
from kstore_core.maintenance.doctor import examine, set_aside, versions
from kstore_core.maintenance.doctor import logs as doctor_logs
from kstore_core.maintenance.doctor.holders import below
from kstore_core.maintenance.verify import verify
from kstore_core.maintenance.verify.protocol import Job, Unit
from kstore_core.maintenance.verify.worker import Worker
from kstore_core.state.migration_note import Plan
from kstore_core.system.lock import LOCK_FILE
from tests.maintenance.verify.stores import hashed, plant

ORDERS = stores.timestamped_key_value_with_headers("orders", key=serdes.UTF8, value=serdes.UTF8)
CLICKS = stores.window("clicks", 60_000, 10, False, 20_000)


quick = pytest.mark.usefixtures("one_process")


@pytest.fixture(autouse=True)
def own_temporary(tmp_path, monkeypatch):
    """What other tests leave in the common one is not of interest."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture(params=["lmdb", "rocksdb"])
def root(request, tmp_path):
    path = tmp_path / "app" / "0_0"
    make(path, request.param, tmp_path / "logs")
    return path


def make(path, engine, logs=None):
    with open_state(path, engine=engine, changelog=logs) as state:
        orders, clicks = state.open(ORDERS), state.open(CLICKS)
        for number in range(50):
            orders.put(f"k{number}", "v", timestamp=number)
            clicks.put(b"k", b"v", window_start=number * 1000)
        state.commit({("input", 0): 4})


def engine_of(root):
    return "rocksdb" if (root / "rocksdb").is_dir() else "lmdb"


def found(root):
    """What is found, by what it is, but for the disk of this machine."""
    findings = [finding for finding in examine(root).findings if finding.what != "disk"]
    return {finding.what: finding for finding in findings}


def test_nothing_is_wrong(run, root):
    before = hashed(root)
    assert found(root) == {}
    ran = run("doctor", root)
    assert ran.lines[-1].startswith(f"{root}: ")
    assert hashed(root) == before


@quick
def test_who_has_it_open(root):
    with open_state(root) as state:
        state.open(ORDERS)
        held = [f.why for f in examine(root).findings if f.what == "lock"]
    assert any(
        why.startswith(".kstore.lock is locked, because the state directory is open for writing")
        and f"in process {os.getpid()} (" in why
        for why in held
    )


@quick
def test_a_lock_of_a_process_that_was_killed(root):
    code = (
        "import sys, os; from kstore_core import open_state\n"
        "state = open_state(sys.argv[1]); print(flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    lock = found(root)["lock"]
    assert f"names process {process.pid}, which was killed" in lock.why
    assert lock.severity == "note"


@quick
@pytest.mark.slow
def test_a_directory_where_the_lock_is(run, root):
    (root / LOCK_FILE).unlink()
    (root / LOCK_FILE).mkdir()
    with pytest.raises(StateError, match=r"Move \.kstore\.lock away, or open"):
        open_state(root, engine=engine_of(root))
    ran = run("doctor", root, "--engine", engine_of(root), "--json")
    (lock,) = [finding for finding in ran.document["findings"] if finding["what"] == "lock"]
    assert ran.code == 1
    assert f"{LOCK_FILE} is a directory" in lock["why"]
    subprocess.run(lock["remedy"].partition(": ")[2], shell=True, check=True)
    open_state(root, engine=engine_of(root)).close()
    assert found(root) == {}


@quick
def test_another_engine_than_the_one_that_wrote_it(run, root):
    other = {"lmdb": "rocksdb", "rocksdb": "lmdb"}[engine_of(root)]
    ran = run("doctor", root, "--engine", other)
    assert ran.code == 1
    assert ran.lines[-2].endswith("; run the command again without --engine")


@quick
def test_what_interrupted_work_has_left(root, tmp_path):
    for name in (".kstore-dropped~", ".kstore-restore-orders-x", "orders.set-aside-1"):
        (root / name).mkdir()
    (root / ".checkpoint").write_text("0\n0\n")
    (root / "orders.position").write_bytes(b"")
    (tmp_path / "tmp" / "kstore-read-abcdefgh").mkdir()
    (root / "lmdb" / "~0123-ab").mkdir(parents=True)
    findings = [finding for finding in examine(root).findings if finding.what != "disk"]
    told = {finding.why.split(" ")[0]: finding for finding in findings}
    names = (".kstore-dropped~", ".kstore-restore-orders-x", "lmdb/~0123-ab")
    for name in names:
        assert told[str(root / name)].severity == "finding"
        assert told[str(root / name)].remedy == f"rm -r {shlex.quote(str(root / name))}"
    for name in ("orders.set-aside-1", ".checkpoint", "orders.position"):
        assert told[str(root / name)].severity == "note"
    assert str(tmp_path / "tmp" / "kstore-read-abcdefgh") in told["1"].remedy


@quick
def test_the_scratch_of_a_reader_that_lives_is_no_leftover(tmp_path):
    make(tmp_path / "0_0", "rocksdb")
    with open_state(tmp_path / "0_0", read_only=True) as state:
        state.open(ORDERS)
        assert list((tmp_path / "tmp").iterdir())
        assert found(tmp_path / "0_0") == {}


@quick
@pytest.mark.slow
def test_a_migration_that_was_interrupted(root):
    Plan("copy", ("orders",), "rocksdb", "rocksdb").write(root)
    finding = found(root)["migration"]
    assert finding.remedy == f"kstore migrate {root} orders"
    assert any(finding.what == "migration" for finding in verify(root).findings)
    plan = root / ".kstore-migrate~" / "plan.json"
    plan.write_text("{")
    assert "cannot be read" in found(root)["migration"].why
    assert any(finding.what == "migration" for finding in verify(root).findings)
    plan.unlink()
    (root / ".kstore-migrate~" / "old" / "orders").mkdir(parents=True)
    assert "--drop-old" in found(root)["migration"].remedy


@quick
def test_a_disk_that_is_nearly_full(root, monkeypatch):
    nearly = shutil._ntuple_diskusage(1 << 40, (1 << 40) - (1 << 20), 1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: nearly)
    full = [finding for finding in examine(root).findings if finding.what == "disk"]
    assert "only 1 MiB free" in full[0].why


@quick
@pytest.mark.slow
def test_what_cannot_be_written(root, monkeypatch):
    monkeypatch.setattr(around.os, "access", lambda *_: False)
    assert "may not write or may not enter" in found(root)["permissions"].why
    read_only = os.statvfs(root)
    flags = [*[*read_only][:8], read_only.f_flag | os.ST_RDONLY, read_only.f_namemax]
    monkeypatch.setattr(around.os, "statvfs", lambda _: os.statvfs_result(flags))
    assert "mounted read-only" in found(root)["permissions"].why


@quick
def test_what_may_not_be_read_is_no_damage(root, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(root))

    engine = type(make_engine(engine_of(root)))
    with monkeypatch.context() as patched:
        patched.setattr(engine, "file_faults", refuse)
        finding = found(root)["permissions"]
        assert finding.severity == "finding"
        assert "Permission denied" in finding.why
    monkeypatch.setattr(engine, "stores", refuse)
    assert found(root)["permissions"].remedy.startswith("change the owner or the mode")


@pytest.mark.parametrize(
    ("error", "severity", "what"),
    [
        (PermissionError(13, "Permission denied", "x"), "finding", "forbidden"),
        (EngineError("IO error: Permission denied: While open a file"), "finding", "forbidden"),
        (EngineError("IO error: something else"), "corrupt", "unreadable"),
    ],
)
def test_to_verify_what_may_not_be_read_is_no_damage(root, monkeypatch, error, severity, what):
    def refuse(*_, **__):
        raise error

    engine = make_engine(engine_of(root))
    monkeypatch.setattr(type(engine), "file_faults", refuse)
    told = []
    worker = Worker(Job(engine, root, None, 1, None), lambda _, finding: told.append(finding))
    worker.do(Unit("files", "orders"))
    assert [(finding.severity, finding.what) for finding in told] == [(severity, what)]


def test_an_engine_that_is_missing(tmp_path):
    (tmp_path / LOCK_FILE).write_text(json.dumps({"engine": "nowhere", "pid": None}))
    assert "no engine named 'nowhere'" in found(tmp_path)["engine"].why
    (tmp_path / LOCK_FILE).unlink()
    assert "no installed engine recognises a store" in found(tmp_path)["engine"].why


@quick
@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is missing"),
        (b"", "is empty"),
        (b"\xff\xfe\0", "cannot be read"),
        (b'{"engine": 5}', "cannot be read"),
        (b'{"engine": "nowhere", "pid": null}', "names the engine 'nowhere'"),
    ],
)
def test_a_lock_file_that_does_not_tell_the_engine(run, root, content, why):
    if content is None:
        (root / LOCK_FILE).unlink()
    else:
        (root / LOCK_FILE).write_bytes(content)
    finding = found(root)["lock file"]
    assert finding.severity == "note"
    assert finding.why.startswith(f".kstore.lock {why}, but must name {engine_of(root)!r}, the")
    assert run("doctor", root).code == 0
    open_state(root).close()
    assert found(root) == {}


@pytest.mark.slow
def test_an_older_rocksdb_than_the_one_that_wrote(tmp_path):
    """Kafka's is often newer than the binding's: no fault of a store that can be read."""
    root = tmp_path / "0_0"
    make(root, "rocksdb")
    options = max((root / "rocksdb" / "orders").glob("OPTIONS-*"))
    assert versions.newest(root) is not None
    options.write_text(options.read_text().replace("rocksdb_version=", "rocksdb_version=9"))
    version = found(root)["version"]
    assert "RocksDB 99." in version.why
    assert (version.severity, version.remedy) == ("note", "")
    assert examine(root).exit_code == 0
    (options.parent / "CURRENT").write_text("MANIFEST-999999")
    version = found(root)["version"]
    assert version.severity == "finding"
    assert "rocksdict" in version.remedy


def test_files_that_are_cut_or_lost(root):
    engine = engine_of(root)
    if engine == "lmdb":
        os.truncate(root / "lmdb" / "orders" / "data.mdb", 5000)
    else:
        max((root / "rocksdb" / "orders").glob("*.sst")).unlink()
    finding = found(root)["files"]
    assert (finding.severity, finding.place.store) == ("corrupt", "orders")
    assert finding.remedy == f"kstore doctor {root} --set-aside orders"
    if engine == "rocksdb":
        assert "is missing" in finding.why
        (root / "rocksdb" / "orders" / "CURRENT").unlink()
        assert "the file CURRENT is missing" in found(root)["files"].why
        for file in (root / "rocksdb" / "orders").glob("*.sst"):
            file.rename(file.with_suffix(".bak"))
        assert "they are not a database" in found(root)["files"].why


@quick
def test_segments_with_names_of_older_versions_and_too_few_descriptors(tmp_path, monkeypatch):
    root = tmp_path / "0_0"
    make(root, "rocksdb")
    (root / "clicks" / "clicks.20000").rename(root / "clicks" / "clicks:20000")
    legacy = found(root)["legacy"]
    assert "'clicks:20000' has the form of older" in legacy.why
    monkeypatch.setattr(around.resource, "getrlimit", lambda _: (32, 32))
    monkeypatch.setattr(around, "max_open", lambda: 1)
    assert found(root)["file descriptors"].remedy == "raise the limit with ulimit -n"


@quick
def test_what_stores_say(root):
    """A spec that is gone, an upgrade that is not finished, offsets that lag."""
    engine = engine_of(root)
    plant(root, engine, ORDERS, "keyValueWithTimestamp", {b"old": bytes(8)})
    plant(root, engine, ORDERS, "offsets", {b"input-0": (9).to_bytes(8, "big")})
    told = found(root)
    assert told["upgrade"].remedy == f"kstore upgrade {root} orders"
    assert "(clicks up to 4, orders up to 9), so a replay begins after" in told["offsets"].why
    gone = (b"input-0", b"app-orders-changelog-0", b"kstore.spec")
    plant(root, engine, ORDERS, "offsets", dict.fromkeys(gone))
    told = found(root)
    assert told["offsets"].severity == "finding"
    assert "there are no offsets in: orders. So" in told["offsets"].why
    assert told["spec"].place.store == "orders"


@quick
@pytest.mark.parametrize("store", ["orders", "clicks"])
def test_a_store_is_set_aside_and_restored(run, root, tmp_path, store):
    spec = ORDERS if store == "orders" else CLICKS
    with open_state(root, read_only=True) as state:
        before = list(state.open(spec).all())
    ran = run("doctor", root, "--set-aside", store)
    assert ran.code == 0
    aside = root / f"{store}.set-aside-1"
    assert ran.out.startswith(f"{store} was set aside in {aside}. Restore it with: kstore restore")
    with open_state(root, read_only=True) as state:
        assert store not in state.stores()
    with open_state(aside, read_only=True) as state:
        assert state.stores() == [store]
        assert list(state.open(spec).all()) == before
    command = ran.out.split(": kstore ")[1].split()
    command[command.index("LOGDIR")] = str(tmp_path / "logs")
    assert run(*command).code == 0
    with open_state(root, read_only=True) as state:
        assert list(state.open(spec).all()) == before
    again = run("doctor", root, "--set-aside", store, "--json")
    assert again.document["set_aside"] == str(root / f"{store}.set-aside-2")
    assert "--shape" in again.document["restore"]


def test_a_damaged_store_is_set_aside_as_it_is(root):
    engine = engine_of(root)
    name = "data.mdb" if engine == "lmdb" else "CURRENT"
    (root / engine / "orders" / name).write_bytes(b"rubbish")
    done = set_aside(root, "orders")
    assert (done.path / engine / "orders" / name).read_bytes() == b"rubbish"
    assert done.spec is None
    with open_state(root) as state:
        assert list(state.open(ORDERS).all()) == []


@quick
def test_what_is_not_set_aside(run, root):
    with open_state(root) as state:
        state.open(ORDERS)
        with pytest.raises(EngineLockedError):
            set_aside(root, "orders")
        assert run("doctor", root, "--set-aside", "orders").code == 3
    with pytest.raises(StateError, match="no store 'other'; it has: "):
        set_aside(root, "other")
    with pytest.raises(SpecError):
        set_aside(root, "../orders")
    with pytest.raises(StateError, match="no state directory"):
        examine(root / "nowhere")
    aside = set_aside(root, "orders").path
    before = hashed(root)
    for name in (engine_of(root), aside.name, "logs"):
        with pytest.raises((StateError, SpecError)):
            set_aside(root, name)
    assert hashed(root) == before


def test_a_remedy_is_a_command_as_it_stands(run, root):
    odd = root.parent / "0 0; $(exit)"
    root.rename(odd)
    left = odd / ".kstore-restore-orders-x"
    left.mkdir()
    assert shlex.split(found(odd)["leftover"].remedy) == ["rm", "-r", str(left)]
    for file in (odd / engine_of(odd) / "orders").iterdir():
        file.write_bytes(b"rubbish")
    corrupt = next(f for f in examine(odd).findings if f.severity == "corrupt")
    command = ["kstore", "doctor", str(odd), "--set-aside", "orders"]
    assert shlex.split(corrupt.remedy) == command
    ran = run(*command[1:])
    assert shlex.split(ran.out.partition("Restore it with: ")[2])[:4] == [
        "kstore", "restore", str(odd), "orders",
    ]  # fmt: skip


@quick
@pytest.mark.slow
def test_a_store_that_is_named_like_an_option(run, tmp_path):
    """The commands that are told of it are taken as they stand."""
    root = tmp_path / "a b" / "app" / "0_0"
    spec = stores.timestamped_key_value_with_headers("-x")
    with open_state(root, engine="rocksdb", changelog=tmp_path / "logs") as state:
        state.open(spec).put(b"k", b"v", timestamp=1)

    def told(remedy, logs=""):
        words = shlex.split(remedy[remedy.index("kstore ") :])
        return run(*[logs if word == "LOGDIR" else word for word in words[1:]])

    plant(root, "rocksdb", spec, "keyValueWithTimestamp", {b"old": bytes(8)})
    assert told(found(root)["upgrade"].remedy).code == 0
    assert run("migrate", root, "--to", "plain", "--lossy", "--", "-x").code == 0
    ran = run("migrate", root, "--to", "headers", "--", "-x")
    assert ran.code == 1
    assert told(found(root)["migration"].remedy).out == "-x: deleted the old files\n"
    assert told(ran.err).out == "-x: there are no old files\n"
    assert run("migrate", root, "--to", "headers", "--drop-old", "--", "-x").code == 0
    max((root / "rocksdb" / "-x").glob("*.sst")).unlink()
    corrupt = next(one for one in verify(root).findings if one.severity == "corrupt")
    assert corrupt.remedy.endswith(found(root)["files"].remedy)
    ran = told(found(root)["files"].remedy)
    assert ran.code == 0
    kind = "--shape key-value --format headers"
    restore = ran.out.replace("--shape … and further options", kind)
    assert told(restore, tmp_path / "logs").code == 0
    with open_state(root, read_only=True) as state:
        assert state.open(spec).get(b"k").value == b"v"


@quick
@pytest.mark.slow
def test_what_a_writer_is_at_work_with_is_no_leftover(root):
    left = root / ".kstore-restore-orders-x"
    left.mkdir()
    with open_state(root):
        assert "leftover" not in found(root)
    assert found(root)["leftover"].remedy == f"rm -r {left}"


@quick
def test_json(run, root):
    os.truncate(next((root / engine_of(root) / "orders").glob("[dC][aU]*")), 3)
    ran = run("doctor", root, "--json")
    assert ran.code == ran.document["exit_code"] == 4
    finding = next(f for f in ran.document["findings"] if f["severity"] == "corrupt")
    assert finding["store"] == "orders"
    assert run("doctor", root).lines[-1] == f"{root}: corrupt"


def test_what_a_writer_drops_while_doctor_looks_is_passed_over(tmp_path: Path) -> None:
    root = tmp_path / "0_0"
    for name in ("a", "b", "c"):
        (root / name / "inside").mkdir(parents=True)
    looked = below(root)
    next(looked)
    for name in ("a", "b", "c"):
        shutil.rmtree(root / name)
    assert {path.name for path in looked} <= {"a", "b", "c"}


def test_files_of_a_log_that_a_writer_renames_or_that_are_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, logs = tmp_path / "app" / "0_0", tmp_path / "logs"
    with open_state(root, engine="lmdb", changelog=logs) as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    (log,) = logs.iterdir()
    left, renamed = (log / f"{0:020d}.log.cut{end}" for end in ("-1", ""))
    left.write_bytes(b"left")
    monkeypatch.setattr(doctor_logs, "cuts", lambda log: [left, renamed])
    (found,) = (one for one in examine(root, changelog=logs).findings if one.what == "leftover")
    assert found.why.startswith("4 bytes of an interrupted write")
    (log / f"{50:020d}.log").mkdir()
    (found,) = (one for one in examine(root, changelog=logs).findings if one.what == "unreadable")
    assert (found.severity, found.place.store) == ("finding", "s")
    assert f"{50:020d}.log" in found.why
