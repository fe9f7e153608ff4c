"""Engines are found by entry point and loaded by name, only the one that is asked for."""

import errno
import os
import shutil
import sys

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery import entry_points, registry
from kstore_core.discovery.registry import engine_class, installed_engines, make_engine
from kstore_core.engine import Engine
from kstore_core.errors import EngineUnavailableError, SpecError, UnknownEngineError
from kstore_memory import MemoryEngine

GOOD = """
from kstore_core.engine import Engine
from kstore_core.hookspecs import hookimpl
from kstore_memory import MemoryEngine

class Toy(MemoryEngine):
    name = "toy"

@hookimpl
def kstore_register_engines(registrar):
    registrar.add(Toy)
"""

MUTE = """
class Mute(Exception):
    def __str__(self):
        raise RuntimeError

raise Mute
"""


def test_the_engines_that_come_along_are_announced():
    found = {engine.name: engine for engine in installed_engines()}
    assert found["memory"].module == "kstore_memory"
    assert found["rocksdb"].distribution == "kstore"
    assert list(found) == sorted(found)


def test_a_distribution_that_is_installed_or_removed_is_noticed(install, tmp_path, monkeypatch):
    monkeypatch.setattr(entry_points, "_INSTALLING_NS", 0)
    before = installed_engines()
    assert installed_engines() == before
    install("late", "")
    assert [found.name for found in set(installed_engines()) - set(before)] == ["late"]
    shutil.rmtree(*tmp_path.glob("*/kstore_late-1.2.dist-info"))
    assert installed_engines() == before


def test_a_distribution_that_was_listed_during_its_installation_is_noticed(install, tmp_path):
    install("half", "")
    (points,) = tmp_path.glob("*/kstore_half-1.2.dist-info/entry_points.txt")
    told = points.read_text()
    points.unlink()
    before = installed_engines()
    points.write_text(told)
    assert [found.name for found in set(installed_engines()) - set(before)] == ["half"]


def test_plugins_that_were_listed_when_files_ran_out_are_not_remembered(monkeypatch, install):
    install("few", "")
    monkeypatch.setattr(entry_points, "_INSTALLING_NS", 0)
    wanted = {"few", "memory", "rocksdb", "lmdb"}

    def full(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:

        def run_out(group):
            patched.setattr(os, "open", full)
            return []

        patched.setattr("importlib.metadata.entry_points", run_out)
        with pytest.raises(EngineUnavailableError, match="Too many open files"):
            installed_engines()
    assert wanted <= {found.name for found in installed_engines()}


def test_an_engine_is_made_from_its_name():
    assert engine_class("memory") is MemoryEngine
    assert isinstance(make_engine("memory"), MemoryEngine)
    assert make_engine("memory") is not make_engine("memory")


def test_an_engine_object_passes_through_and_takes_no_options():
    engine = MemoryEngine()
    assert make_engine(engine) is engine
    with pytest.raises(TypeError, match="constructor"):
        make_engine(engine, {})


def test_an_unknown_engine_lists_the_installed():
    with pytest.raises(UnknownEngineError, match=r"no engine named 'rocks'.*memory, rocksdb"):
        open_state("nowhere", engine="rocks")


@pytest.mark.parametrize("engine", [5, b"memory", ("memory",), MemoryEngine, ""])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises((UnknownEngineError, TypeError)):
        open_state("nowhere", engine=engine)


def test_the_nearest_option_is_named():
    with pytest.raises(SpecError, match="did you mean 'block_cache_bytes'"):
        make_engine("rocksdb", {"block_cache_byte": 5})
    with pytest.raises(SpecError, match="takes int, not str"):
        make_engine("rocksdb", {"block_cache_bytes": "5"})
    with pytest.raises(SpecError, match="no option 'size'"):
        make_engine("memory", {"size": 5})
    with pytest.raises(SpecError, match="an option of EngineOptions must be a str, not 1"):
        make_engine("memory", {1: 1})


def test_anybodys_engine_can_be_installed(install):
    install("toy", GOOD)
    assert "toy" in {engine.name for engine in installed_engines()}
    with open_state("somewhere", engine="toy") as state:
        store = state.open(stores.key_value("s"))
        store.put(b"a", b"1")
        assert store.get(b"a") == b"1"
        assert isinstance(state.engine, Engine)


def test_a_broken_plugin_is_not_imported_for_another_engine(install):
    module = install("broken", "raise RuntimeError('should not be imported')")
    assert engine_class("memory") is MemoryEngine
    assert "broken" in {engine.name for engine in installed_engines()}
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_library_that_is_not_there", "ModuleNotFoundError: .*a_library_that_is_not"),
        ("raise RuntimeError('no such chip')", "RuntimeError: no such chip"),
        ("x = ", "SyntaxError"),
        ("raise SystemExit('not here')", "SystemExit: not here"),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("class Own(BaseException): pass\nraise Own('mine')", "Own: mine"),
        (MUTE, r"Mute: \(no text: its __str__ raises RuntimeError\)"),
        ("from kstore_core.errors import SpecError\nraise SpecError('x')", "SpecError: x"),
        ("", "PluginError: .*implements no hook of the group 'kstore.engines'"),
        (GOOD.replace("registrar.add(Toy)", "pass"), "no engine of this name; it registers: none"),
        (GOOD.replace('"toy"', '"joy"'), "registers no engine of this name; it registers: 'joy'"),
        (GOOD.replace("add(Toy)", "add(Toy())"), "TypeError: an engine must be a subclass"),
        (GOOD.replace("add(Toy)", "add(int)"), "TypeError: an engine must be a subclass"),
        (GOOD.replace("add(Toy)", "add(Engine)"), "TypeError: Engine does not implement open, st"),
        (GOOD.replace('name = "toy"', "name = 7"), "TypeError: Toy must have a name"),
        (GOOD.replace('name = "toy"', 'name = "toy"; capabilities = {}'), "attribute capabilities"),
        (GOOD.replace("(registrar)", "(registrar, colour)"), "PluginValidationError: .*'colour'"),
        (GOOD.replace("kstore_register_engines", "kstore_registr_engines"), "PluginValidation"),
    ],
    ids=["missing-library", "raises", "syntax", "exits", "generator", "base", "mute", "own-error",
         "empty", "nothing", "other-name", "instance", "no-engine", "abstract", "name",
         "capabilities", "arguments", "misspelt"],
)  # fmt: skip
def test_an_engine_that_cannot_be_loaded_says_whose_it_is_and_why(install, source, reason):
    install("toy", source)
    with pytest.raises(EngineUnavailableError, match=rf"(?s)'toy' of kstore-toy 1.2.*{reason}"):
        open_state("somewhere", engine="toy")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("persistent", "'x'"),
        ("children", "None"),
        ("max_key_bytes", "'many'"),
        ("max_key_bytes", "True"),
        ("durability", "None"),
        ("durability", "(1, 2)"),
        ("durability", "'process'"),
    ],
)
def test_a_capability_of_another_type_is_refused(install, field, value):
    can = f"dataclasses.replace(MemoryEngine.capabilities, {field}={value})"
    source = "import dataclasses\n" + GOOD.replace(
        'name = "toy"', f'name = "toy"; capabilities = {can}'
    )
    install("toy", source)
    with pytest.raises(EngineUnavailableError, match=rf"Toy.capabilities.{field} must be a"):
        open_state("somewhere", engine="toy")


def test_an_interrupt_while_an_engine_is_imported_is_nobodys_fault(install):
    install("toy", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        make_engine("toy")


def test_an_engine_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr(registry, "_loaded", {})
    for name in list(sys.modules):
        if name.partition(".")[0] in ("kstore_rocksdb", "rocksdict"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install 'rocksdict>=0\.3"):
        make_engine("rocksdb")


def test_a_name_that_two_claim_is_refused(install):
    install("toy", GOOD)
    install("toy", GOOD, distribution="another-toy", module="plugin_another")
    with pytest.raises(
        EngineUnavailableError,
        match=r"another-toy 1.2 \(plugin_another\) and kstore-toy 1.2 \(plugin_toy\)",
    ):
        make_engine("toy")
