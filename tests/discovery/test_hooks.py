"""The hooks of the group ``kstore.plugins``: who is asked, in which order, and who is left out."""

import subprocess
import sys

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery.entry_points import PluginWarning, installed_plugins, require, wrap_table
from kstore_core.errors import PluginError
from kstore_core.hookspecs import PLUGINS
from kstore_core.tables import Bounds

SPEC = stores.key_value("s")

LAYER = """
from kstore_core.hookspecs import hookimpl
from kstore_core.tables import Layer

class Noted(Layer):
    def __init__(self, below):
        super().__init__(below)
        self.names = [*getattr(below, "names", []), "{name}"]

@hookimpl
def kstore_wrap_table(table, spec):
    if spec.name == "s":
        return Noted(table)
"""


@pytest.fixture
def add(install):
    """Install a plug-in of the group ``kstore.plugins``."""

    def put(name, source, **more):
        return install(name, source, group=PLUGINS, **more)

    return put


@pytest.fixture
def table(fresh):
    """The table of an open store, which no plug-in has seen."""
    with open_state("nowhere", engine="memory") as state:
        below = state.open(SPEC).table
        installed_plugins.cache_clear()
        yield below


def test_a_store_has_no_layer_where_no_plugin_wants_one(add, table):
    add("noted", LAYER)
    assert wrap_table(table, SPEC) is not table
    assert wrap_table(table, stores.key_value("other")) is table


def test_plugins_are_asked_by_name_each_given_what_the_one_before_returned(add, table):
    for name in ("b-second", "c-third", "a-first"):
        add(name, LAYER.format(name=name))
    assert wrap_table(table, SPEC).names == ["a-first", "b-second", "c-third"]


def test_a_hook_may_take_fewer_arguments(add, table):
    add("few", LAYER.replace("(table, spec)", "(table)").replace('spec.name == "s"', "True"))
    assert wrap_table(table, SPEC) is not table


def test_plugins_are_imported_when_a_store_is_opened_and_once(add, home):
    module = add("counted", LAYER + "import sys; sys.counted = getattr(sys, 'counted', 0) + 1")
    with home.open() as state:
        assert module not in sys.modules
        for name in ("s", "t", "u"):
            state.open(stores.key_value(name))
    assert sys.counted == 1
    del sys.counted


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_library_that_is_not_there", "ModuleNotFoundError: .*a_library_that_is_not"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("x = ", "SyntaxError"),
        ("", "hooks of the group are: kstore_add_commands, kstore_wrap"),
        (LAYER.replace("(table, spec)", "(tabel, spec)"), "PluginValidationError: .*'tabel'"),
        (LAYER.replace("kstore_wrap_table", "kstore_warp_table"), "unknown hook 'kstore_warp_t"),
        (LAYER.replace("wrap_table(table, spec)", "register_engines(registrar)"), "no hook of the"),
    ],
    ids=["library", "exits", "generator", "syntax", "empty", "argument", "misspelt", "other-group"],
)
def test_a_broken_plugin_is_left_out_with_a_warning_and_disturbs_no_other(
    add, table, source, reason
):
    add("broken", source)
    add("sound", LAYER.format(name="sound"))
    with pytest.warns(PluginWarning, match=rf"'broken' of kstore-broken 1.2 .*{reason}") as warned:
        assert wrap_table(table, SPEC).names == ["sound"]
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_of_two_plugins_of_one_name_neither_is_used(add, table):
    add("twice", LAYER)
    add("twice", LAYER, distribution="another", module="plugin_another")
    match = r"'twice' is used by .*: another 1.2 \(plugin_another\) and kstore-twice 1.2 \(plugin_t"
    with pytest.warns(PluginWarning, match=match):
        assert wrap_table(table, SPEC) is table


def test_a_plugin_that_fails_when_asked_keeps_the_store_closed(add, home):
    add("failing", LAYER.replace("return Noted(table)", "raise OSError('no key')"))
    with home.open() as state:
        with pytest.raises(PluginError, match=r"'failing' of .* store 's', .*OSError: no key"):
            state.open(SPEC)
        assert state.open(stores.key_value("other")).get(b"k") is None


@pytest.mark.parametrize("raised", ["SystemExit", "GeneratorExit"])
def test_a_plugin_that_exits_when_asked_keeps_the_store_closed(add, table, raised):
    add("failing", LAYER.replace("return Noted(table)", f"raise {raised}(7)"))
    with pytest.raises(PluginError, match=rf"'failing' of .* store 's', .*{raised}: 7"):
        wrap_table(table, SPEC)


def test_what_is_no_table_is_refused(add, table):
    add("wrong", LAYER.replace("return Noted(table)", "return 5"))
    with pytest.raises(
        PluginError, match=r"'wrong' of .* returned 5, which is not .*get, get_many"
    ):
        wrap_table(table, SPEC)


def test_a_program_can_require_a_plugin(add):
    add("sound", LAYER)
    add("broken", "raise OSError('no key')")
    require("sound")
    require()
    with pytest.raises(PluginError, match=r"'broken' of kstore-broken 1.2 .*OSError: no key"):
        require("sound", "broken")
    with pytest.raises(PluginError, match=r"no plug-in 'absent' .*installed are: broken, sound"):
        require("absent")


def test_a_plugin_says_which_hooks_it_implements(sample, add):
    add("broken", "raise OSError('no key')")
    found = {plugin.announced.name: plugin.hooks for plugin in installed_plugins()}
    assert found == {"broken": [], "sample": ["kstore_add_commands", "kstore_wrap_table"]}


def test_a_layer_stands_between_a_store_and_its_rows(sample, home):
    spec = stores.key_value("s.squeezed")
    value = b"a value that repeats itself, " * 100
    with home.open() as state:
        store = state.open(spec)
        store.put(b"a", value)
        store.put_all([(b"b", value), (b"c", b"")])
        assert store.get_many([b"a", b"b", b"c", b"d"]) == [value, value, b"", None]
        assert state.staged_bytes < len(value)
        state.commit()
        store.put(b"a", b"new")
        assert list(store.all()) == [(b"a", b"new"), (b"b", value), (b"c", b"")]
        assert [key for key, _ in store.all(reverse=True)] == [b"c", b"b", b"a"]
        assert store.delete(b"c") == b""
    with home.open(read_only=True) as state:
        store = state.open(spec)
        assert dict(store.all()) == {b"a": b"new", b"b": value}
        stored = dict(zip(*next(store.table.below.scan(Bounds())), strict=True))
        assert set(stored) == {b"a", b"b"}
        assert len(stored[b"b"]) < 100


def test_a_layer_stands_below_versions_too(sample, home):
    spec = stores.versioned_key_value_with_headers("v.squeezed", 1000)
    with home.open() as state:
        store = state.open(spec)
        for time in range(0, 500, 100):
            store.put(b"k", b"%d" % time * 100, timestamp=time, headers=[("h", b"x")])
    with home.open() as state:
        record = state.open(spec).get(b"k", as_of=250)
        assert (record.value, record.timestamp, record.valid_to) == (b"200" * 100, 200, 300)
        assert list(record.headers) == [("h", b"x")]


def test_rows_that_are_restored_pass_the_layer(sample, home):
    spec = stores.key_value("s.squeezed")
    with home.open() as state:
        store = state.open(spec)
        assert store.table.load([([b"a", b"b"], [b"1" * 500, b"2" * 500])]) == 2
        assert store.get(b"b") == b"2" * 500
        assert len(store.table.below.get(b"b")) < 50


def test_a_hook_is_asked_at_open_and_not_for_a_record(add, home):
    asking = "import sys; sys.asked = getattr(sys, 'asked', []); sys.asked.append(spec.name)"
    add("asked", LAYER.replace('    if spec.name == "s"', f'    {asking}\n    if spec.name == "s"'))
    with home.open() as state:
        store = state.open(SPEC)
        for number in range(100):
            store.put(b"%d" % number, b"v")
            store.get(b"%d" % number)
        state.commit()
        assert state.open(SPEC) is store
    assert sys.asked == ["s"]
    del sys.asked


def test_a_warning_made_an_error_keeps_the_store_closed(add, tmp_path):
    module = add("broken", "raise OSError('no key')")
    code = (
        "import sys, warnings; sys.path[:0] = sys.argv[2:]\n"
        "from kstore_core import open_state, stores\n"
        "from kstore_core.discovery.entry_points import PluginWarning\n"
        "warnings.simplefilter('error', PluginWarning)\n"
        "with open_state(sys.argv[1], engine='memory') as state:\n"
        "    state.open(stores.key_value('s'))\n"
    )
    assert module == "plugin_broken"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "0_0", *sys.path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "PluginWarning: left out: the plug-in 'broken' of kstore-broken 1.2" in done.stderr
    with pytest.warns(PluginWarning), open_state(tmp_path / "0_0", engine="memory") as state:
        assert state.open(stores.key_value("s")).get(b"k") is None
