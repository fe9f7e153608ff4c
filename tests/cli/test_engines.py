"""``kstore engines``, and the commands that plug-ins add."""

import subprocess
import sys
from dataclasses import fields

import pytest

from kstore_core import open_state, stores
from kstore_core.cli.app import COMMANDS
from kstore_core.discovery import PluginWarning
from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.engine import Capabilities
from kstore_core.hookspecs import PLUGINS

COMMAND = """
import click
from kstore_core.hookspecs import hookimpl

@click.command()
def {name}():
    "Greet."
    click.echo("hello from {name}")

@hookimpl
def kstore_add_commands(registrar):
    registrar.add({name})
"""


REGISTER = """
from kstore_core.hookspecs import hookimpl

@hookimpl
def kstore_register_engines({}):
    {}
"""


def named(rows):
    return {row["name"]: row for row in rows}


def test_every_engine_is_listed_with_all_that_it_can(run):
    ran = run("engines")
    assert ran.code == 0
    assert ran.err == ""
    document = run("engines", "--json").document
    found = named(document["engines"])
    assert list(found) == [engine.name for engine in installed_engines()]
    assert document["plugins"] == []
    for name, row in found.items():
        capabilities = engine_class(name).capabilities
        assert row["capabilities"].keys() == {field.name for field in fields(Capabilities)}
        assert Capabilities(**row["capabilities"]) == Capabilities(
            **row["capabilities"] | {"durability": list(capabilities.durability)}
        )
        assert row["error"] is None


def test_capabilities_are_readable(run):
    lines = {line.split()[0]: line for line in run("engines").lines}
    assert "any process" in lines["rocksdb"]
    assert "on disk" in lines["rocksdb"]
    assert "process, power, changelog" in lines["rocksdb"]
    assert "checkpoint, bulk load, children, empty keys" in lines["rocksdb"]
    assert "in memory" in lines["memory"]
    assert "its process" in lines["memory"]


def test_an_engine_and_a_plugin_that_nobody_installed_are_listed(run, sample):
    ran = run("engines")
    assert ran.code == 0
    engine, plugin = [line for line in ran.lines if line.startswith("sample ")]
    assert "kstore-sample 1.0" in engine
    assert "process, power" in engine
    assert plugin.split() == [
        "sample", "kstore-sample", "1.0", "kstore_add_commands,", "kstore_wrap_table"
    ]  # fmt: skip
    document = run("engines", "--json").document
    row = named(document["engines"])["sample"]
    assert (row["distribution"], row["version"], row["module"]) == (
        "kstore-sample", "1.0", "kstore_sample"
    )  # fmt: skip
    assert row["capabilities"]["persistent"] is True
    assert named(document["plugins"])["sample"]["hooks"] == [
        "kstore_add_commands", "kstore_wrap_table"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no such\\nchip')", "RuntimeError: no such chip"),
        ("", "implements no hook of the group 'kstore.engines'"),
        (
            REGISTER.format("registrar", "registrar.add(int)"),
            "TypeError: an engine must be a subclass of kstore_core.engine.Engine",
        ),
        (REGISTER.format("registry", "pass"), "PluginValidationError"),
    ],
    ids=["raises", "empty", "no-engine", "argument"],
)
def test_a_broken_engine_says_why_and_disturbs_nothing(run, sample, install, source, reason):
    install("broken", source)
    ran = run("engines")
    assert ran.code == 1
    assert next(line for line in ran.lines if line.startswith("broken ")).split()[1:] == [
        "kstore-broken", "1.2", "cannot", "be", "loaded"
    ]  # fmt: skip
    (line,) = ran.err.splitlines()
    assert line.startswith("kstore: the engine 'broken' of kstore-broken 1.2 cannot be loaded: ")
    assert reason in line
    found = named(run("engines", "--json").document["engines"])
    assert reason in found["broken"]["error"]
    assert found["broken"]["capabilities"] is None
    assert [name for name, row in found.items() if row["error"]] == ["broken"]


def test_two_engines_of_one_name_are_shown_with_both_claimants(run, install):
    install("twice", "")
    install("twice", "", distribution="another", module="plugin_another")
    ran = run("engines")
    assert ran.code == 1
    assert len([line for line in ran.lines if line.startswith("twice ")]) == 2
    (line,) = ran.err.splitlines()
    assert "another 1.2 (plugin_another) and kstore-twice 1.2 (plugin_twice)" in line


def test_a_broken_plugin_says_why(run, sample, install):
    install("broken", "raise RuntimeError('no such chip')", group=PLUGINS)
    ran = run("engines")
    assert ran.code == 1
    assert [line.split()[-1] for line in ran.lines if line.startswith("broken ")] == ["none"]
    assert "the plug-in 'broken' of kstore-broken 1.2 cannot be loaded: RuntimeError" in ran.err
    found = named(run("engines", "--json").document["plugins"])
    assert found["sample"]["error"] is None
    assert "no such chip" in found["broken"]["error"]


def test_a_plugin_adds_a_command(run, sample, tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="sample") as state:
        state.open(stores.key_value("s")).put_all([(b"a", b"1"), (b"b", b"2")])
        state.open(stores.versioned_key_value("v", 1000)).put(b"k", b"v", timestamp=5)
    ran = run("count", root)
    assert (ran.code, ran.lines) == (0, ["s 2", "v 1"])
    assert "  count " in run("--help").out
    assert "Print how many keys" in run("count", "--help").out
    assert run("count", root / "missing").code == 2


def test_errors_of_a_contributed_command_become_exit_codes(run, sample, tmp_path):
    ran = run("count", tmp_path)
    assert ran.code == 2
    assert ran.err.startswith("kstore: ")


@pytest.mark.filterwarnings("default::kstore_core.discovery.PluginWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_kstore_is_never_replaced(run, install, name):
    install("bold", COMMAND.format(name=name), group=PLUGINS)
    assert "hello" not in run(name, "--help").out
    ran = run("engines")
    assert ran.code == 1
    assert (
        "the plug-in 'bold' of kstore-bold 1.2 adds no commands: PluginError: "
        f"the command {name!r} already belongs to kstore; a command of a plug-in must have "
        "a name that no other command has"
    ) in ran.err
    assert run("--help").err.startswith("kstore: left out: the plug-in 'bold' of kstore-bold 1.2 ")


@pytest.mark.filterwarnings("default::kstore_core.discovery.PluginWarning")
def test_of_two_commands_of_one_name_the_first_by_plugin_stays(run, install):
    install("b-late", COMMAND.format(name="greet"), group=PLUGINS)
    install("a-early", COMMAND.format(name="greet"), group=PLUGINS)
    assert run("greet").out == "hello from greet\n"
    assert (
        "the command 'greet' already belongs to the plug-in 'a-early' of kstore-a-early 1.2;"
        in run("engines").err
    )


@pytest.mark.filterwarnings("default::kstore_core.discovery.PluginWarning")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (COMMAND.replace("add({name})", "add(5)"), "TypeError: a command must be a click.Command"),
        (COMMAND.replace("registrar.add({name})", "raise OSError('no')"), "OSError: no"),
        (COMMAND + "    registrar.add({name})\n", "'greet' already belongs to this plug-in"),
        ("raise OSError('no')", "cannot be loaded: OSError: no"),
    ],
    ids=["no-command", "raises", "twice", "import"],
)
def test_a_plugin_that_cannot_add_its_commands_is_left_out(run, sample, install, source, reason):
    install("broken", source.format(name="greet"), group=PLUGINS)
    ran = run("--help")
    assert ran.code == 0
    assert "  count " in ran.out
    (line,) = ran.err.splitlines()
    assert line.startswith("kstore: left out: the plug-in 'broken' of kstore-broken 1.2 ")
    assert reason in line
    assert reason in run("engines").err


def test_other_warnings_look_as_they_always_do(run, install):
    warn = "import warnings; warnings.warn('mind the gap', UserWarning)"
    source = COMMAND.replace('click.echo("hello from {name}")', warn)
    install("warns", source.format(name="greet"), group=PLUGINS)
    with pytest.warns(UserWarning, match="mind the gap") as warned:
        assert run("greet").code == 0
    assert not [one for one in warned if one.category is PluginWarning]


def test_a_command_of_kstore_imports_no_plugin(install):
    module = install("noisy", "raise RuntimeError('imported')", group=PLUGINS)
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from kstore_core.cli.app import kstore\n"
        "kstore.main(['inspect', '--help'], standalone_mode=False)\n"
        f"assert {module!r} not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
