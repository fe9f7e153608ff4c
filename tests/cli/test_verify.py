"""``kstore verify``."""

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.errors import CorruptionError
from tests.maintenance.verify.stores import hashed, plant

SPEC = stores.timestamped_key_value("orders", key=serdes.UTF8, value=serdes.UTF8)


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "app" / "0_0"
    with open_state(path, engine="rocksdb", changelog=tmp_path / "logs") as state:
        store = state.open(SPEC)
        for number in range(20):
            store.put(f"k{number}", "v", timestamp=number)
    return path


def spoil(root):
    rows = {b"k\x1b": b"short", b"\xff": bytes(8)}
    plant(root, "rocksdb", SPEC, SPEC.format.namespace, rows)


def test_a_sound_directory(run, root):
    before = hashed(root)
    ran = run("verify", root)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{root}: sound; read 1 databases, 3 namespaces, 20 rows, ")
    assert hashed(root) == before


def test_one_line_a_finding(run, root):
    spoil(root)
    ran = run("verify", root, "orders")
    assert ran.code == 4
    assert ran.err == ""
    value, serde, last = ran.lines
    assert value.startswith(
        "corrupt orders [keyValueWithTimestamp] 0x6b1b: value: the value does not"
    )
    assert value.endswith(f"kstore doctor {root} --set-aside orders")
    assert serde.startswith("finding orders [keyValueWithTimestamp] 0xff: key and serde: ")
    assert last.startswith(f"{root}: corrupt; read 1 databases")


def test_json(run, root):
    spoil(root)
    ran = run("verify", root, "--json")
    document = ran.document
    assert (ran.code, document["exit_code"], document["path"]) == (4, 4, str(root))
    assert document["counts"]["rows"] == 22
    value, serde = document["findings"]
    assert value | {"why": ""} == {
        "severity": "corrupt",
        "what": "value",
        "why": "",
        "store": "orders",
        "segment": None,
        "namespace": "keyValueWithTimestamp",
        "key": {"hex": "6b1b"},
        "remedy": f"set the store aside and restore it: kstore doctor {root} --set-aside orders",
    }
    assert serde["severity"] == "finding"


def test_findings_that_are_no_damage_are_code_1(run, root):
    plant(root, "rocksdb", SPEC, SPEC.format.namespace, {b"\xff": bytes(8)})
    assert run("verify", root).code == 1


def test_as_many_findings_as_are_asked_for(run, root):
    rows = {b"x%d" % number: b"" for number in range(5)}
    plant(root, "rocksdb", SPEC, SPEC.format.namespace, rows)
    ran = run("verify", root, "--max-findings", "2")
    assert len(ran.lines) == 4
    assert "3 more findings of this kind" in ran.lines[2]
    assert len(run("verify", root, "--max-findings", "0").lines) == 6


def test_with_its_changelog(run, root, tmp_path):
    logs = tmp_path / "logs"
    ran = run("verify", root, "--changelog", logs, "--compare")
    assert ran.code == 0
    assert "20 log records, 20 compared" in ran.out
    plant(root, "rocksdb", SPEC, SPEC.format.namespace, {b"k3": bytes(8) + b"w"})
    ran = run("verify", root, "--changelog", logs, "--compare")
    assert ran.code == 4
    assert "k3: compare: the record in the store differs" in ran.out
    assert run("verify", root, "--compare").code == 2


def test_a_store_of_kafka_streams_is_described_by_options(run, golden):
    root = golden("versioned")
    ran = run("verify", root)
    assert (ran.code, ran.lines[0][:4]) == (0, "note")
    options = ("--shape", "versioned", "--history-retention", "60s", "--segment-interval")
    ran = run("verify", root, "versioned", *options, "10s")
    assert ran.code == 0
    assert " versions" in ran.out
    wrong = run("verify", root, "versioned", *options, "20s")
    assert wrong.code == 4
    assert "check the description of the store" in wrong.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shape", "key-value"), "add STORE"),
        (("orders", "--retention", "1d"), "without its shape; add --shape"),
        (("orders", "--shape", "key-value"), "has a stored spec"),
        (("nowhere",), "no store 'nowhere'; it has: orders"),
    ],
)
def test_refusals(run, root, arguments, said):
    ran = run("verify", root, *arguments)
    assert ran.code in (1, 2)
    assert said in ran.err


def test_progress_on_a_terminal(run_on_a_terminal, root):
    ran = run_on_a_terminal("verify", root)
    assert ran.code == 0
    assert "sound" in ran.out
    assert "verify" in ran.err


def test_a_store_that_lost_its_current_file_is_not_called_sound(run, tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        for name in ("a", "b"):
            state.open(stores.key_value(name)).put(b"k", b"v")
        state.commit({("t", 0): 1})
    (root / "rocksdb" / "a" / "CURRENT").unlink()
    for command in ("verify", "inspect", "doctor"):
        ran = run(command, root)
        assert ran.code == 4, command
        assert "CURRENT" in ran.out + ran.err, command
    assert run("verify", root, "b").code == 0
    assert run("get", root, "a", "k").code == 4
    with open_state(root, read_only=True) as state:
        assert state.stores() == ["a", "b"]
        with pytest.raises(CorruptionError, match="lost its CURRENT file"):
            state.offsets()
