"""What errors become, and that the command line starts without what it does not need."""

import json
import subprocess
import sys

import pytest

from kstore_core import errors, open_state, stores
from kstore_core.cli.app import COMMANDS, kstore
from kstore_core.cli.output.exit_codes import adapted, exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.EngineLockedError("x", pid=1), 3),
        (errors.CorruptionError("x"), 4),
        (errors.FormatError("x"), 4),
        (errors.InconsistentStateError("x"), 4),
        (errors.SpecError("x"), 2),
        (errors.UnknownEngineError("x"), 2),
        (errors.UnsupportedError("x"), 2),
        (errors.StateError("x"), 1),
        (errors.KStoreError("x"), 1),
        (OSError("x"), 1),
    ],
)
def test_exit_codes(error, code):
    assert exit_code(error) == code


@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_is_one_message_and_no_traceback(run, tmp_path, monkeypatch, as_json):
    def fail(*_, **__):
        raise errors.EngineLockedError("held by 4711\x1b[31m", pid=4711)

    monkeypatch.setattr("kstore_core.cli.overview.open_state", fail)
    ran = run("get", tmp_path, "s", "k", *(["--json"] if as_json else []))
    assert (ran.code, ran.out) == (3, "")
    if as_json:
        assert json.loads(ran.err) == {
            "error": "EngineLockedError",
            "message": "held by 4711\x1b[31m",
            "exit_code": 3,
        }
    else:
        assert ran.err == "kstore: held by 4711\\x1b[31m\n"


def test_ctrl_c_is_json_too_where_that_is_asked_for(run, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("kstore_core.cli.overview.open_state", interrupt)
    ran = run("get", tmp_path, "s", "k", "--json")
    assert (ran.code, json.loads(ran.err)) == (
        1,
        {"error": "Abort", "message": "interrupted", "exit_code": 1},
    )
    ran = run("get", tmp_path, "s", "k")
    assert (ran.code, ran.err) == (1, "\nAborted!\n")


def test_no_terminal_acts_upon_a_path(run, tmp_path):
    root = tmp_path / "\x1b[31m"
    with open_state(root / "0_0", engine="lmdb") as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    for command in (
        ("verify", root / "0_0"),
        ("doctor", root / "0_0"),
        ("checkpoint", root / "0_0", root / "copy"),
        ("migrate", root / "0_0", "s", "--to", "headers"),
        ("migrate", root / "0_0", "\x1b[31m", "--drop-old"),
        ("doctor", root / "0_0", "--set-aside", "s"),
        ("doctor", root / "0_0"),
    ):
        ran = run(*command)
        assert "\\x1b[31m" in ran.out + ran.err
        assert "\x1b" not in ran.out + ran.err


def test_a_missing_package_is_named_with_what_to_install(run, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ModuleNotFoundError("No module named 'rocksdict'", name="rocksdict")

    monkeypatch.setattr("kstore_core.cli.overview.open_state", fail)
    ran = run("get", tmp_path, "s", "k")
    assert ran.code == 1
    assert "try: pip install 'rocksdict>=0.3" in ran.err


def test_a_corrupt_store_is_exit_code_4(run, tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    for current in root.rglob("CURRENT"):
        current.write_text("MANIFEST-999999\n")
    ran = run("get", root, "s", "k")
    assert ran.code == 4
    assert ran.err.startswith("kstore: ")


def test_reading_works_while_somebody_writes(run, tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        store = state.open(stores.key_value("s"))
        store.put(b"k", b"committed")
        state.commit()
        store.put(b"k", b"staged")
        assert run("get", root, "s", "k", "--json").document["value"] == "committed"


def test_help_lists_every_command(run):
    ran = run("--help")
    assert ran.code == 0
    for command in COMMANDS:
        assert f"  {command} " in ran.out


def test_version(run):
    assert run("--version").out.startswith("kstore, version ")


def test_an_unknown_command_is_exit_code_2(run):
    assert run("frobnicate").code == 2


def test_what_only_python_can_say_is_not_told():
    for message, told in (
        ("Close it there, or open it with read_only=True", "Close it there, and try again"),
        (
            "Free some space, or open the state directory with read_only=True",
            "Free some space, and try again",
        ),
        ("say what it is (spec=; --shape)", "say what it is (--shape)"),
    ):
        assert adapted(message) == told


def test_every_command_is_read_only():
    for name in COMMANDS:
        assert kstore.get_command(None, name).help


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['click'] = None\nfrom kstore_core.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    needed = "pip install 'click>=8.1' 'rich>=13'"
    wanted = "the command line needs the package click, which is not installed; try: "
    assert done.stderr == f"kstore: {wanted}{needed}\n"


def test_a_closed_pipe_is_no_error(tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        store = state.open(stores.key_value("s"))
        store.put_all((b"%06d" % number, b"v" * 100) for number in range(20_000))
    command = f"{sys.executable} -c 'from kstore_core.cli import main; main()' dump {root} s"
    done = subprocess.run(
        ["bash", "-c", f"{command} --shape key-value | head -n 1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("key")
    assert done.stderr == ""


def test_a_wrong_argument_is_a_usage_error_in_json_too(run, golden):
    root = golden("kv_plain")
    for arguments in (
        ("get", root, "kv_plain", "k", "--as-of", "9" * 30),
        ("history", root, "kv_plain", "k", "--from", "10", "--to", "1"),
        ("dump", root),
    ):
        plain, as_json = run(*arguments), run(*arguments, "--json")
        assert plain.code == as_json.code == 2
        assert json.loads(as_json.err)["exit_code"] == 2
