"""The engine SPI: options that help when they are wrong, and what is given for free."""

import dataclasses
from typing import Any

import pytest

from kstore_core.engine import (
    DURABILITY_LEVELS,
    Capabilities,
    Database,
    Engine,
    EngineOptions,
    Namespace,
    Rows,
    Snapshot,
)
from kstore_core.errors import SpecError, UnsupportedError


@dataclasses.dataclass(frozen=True)
class Options(EngineOptions):
    cache_bytes: int = 100
    compression: str = "none"
    fill_ratio: float = 0.5
    fancy: bool = False
    anything: Any = None


@dataclasses.dataclass(frozen=True)
class OtherOptions(EngineOptions):
    cache_bytes: int = 100


def test_options_come_from_a_mapping():
    assert Options.parse(None) == Options()
    assert Options.parse({}) == Options()
    assert Options.parse({"cache_bytes": 5, "anything": object}) == Options(5, anything=object)


def test_options_that_are_made_already_pass_through():
    made = Options(7)
    assert Options.parse(made) is made


def test_options_of_another_engine_are_refused():
    with pytest.raises(
        SpecError, match="have the type OtherOptions, but must have the type Options"
    ):
        Options.parse(OtherOptions())


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(SpecError, match="no option 'cache_byte'; did you mean 'cache_bytes'"):
        Options.parse({"cache_byte": 5})


def test_an_option_that_resembles_none_lists_all():
    with pytest.raises(SpecError, match="its options are: cache_bytes, compression, fill_ratio"):
        Options.parse({"zzz": 5})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("cache_bytes", "5", "int"),
        ("cache_bytes", 5.0, "int"),
        ("cache_bytes", True, "int"),
        ("cache_bytes", None, "int"),
        ("compression", b"none", "str"),
        ("fancy", 1, "bool"),
        ("fill_ratio", "half", "float"),
    ],
)
def test_an_option_of_another_type_is_refused(name, value, wanted):
    with pytest.raises(SpecError, match=f"option '{name}' takes {wanted}"):
        Options.parse({name: value})


@pytest.mark.parametrize("given", [5, "cache_bytes", ["cache_bytes"], [("cache_bytes", 5)]])
def test_what_is_neither_mapping_nor_options_is_refused(given):
    with pytest.raises((SpecError, TypeError)):
        Options.parse(given)


@pytest.mark.parametrize("name", [5, None, b"cache_bytes"])
def test_an_option_name_is_text(name):
    with pytest.raises((SpecError, TypeError)):
        Options.parse({name: 5})


def test_an_engine_shows_its_options():
    class Toy(Engine):
        name = "toy"
        capabilities = Capabilities(persistent=False, process_local=True)
        options_type = Options

        def stores(self, root):
            return []

        def open(self, root, store, *, durability="process", read_only=False):
            raise NotImplementedError

    assert repr(Toy({"cache_bytes": 5})).startswith("Toy(Options(cache_bytes=5")
    with pytest.raises(SpecError):
        Toy({"cache": 5})


def test_an_engine_without_children_says_so(tmp_path):
    class Childless(Engine):
        name = "childless"
        capabilities = Capabilities(persistent=False, process_local=True)

        def stores(self, root):
            return []

        def open(self, root, store, *, durability="process", read_only=False):
            raise NotImplementedError

    engine = Childless()
    assert engine.children(tmp_path, "s") == []
    for refused in (
        lambda: engine.open_child(tmp_path, "s", "c"),
        lambda: engine.drop_child(tmp_path, "s", "c"),
        lambda: engine.rename_child(tmp_path, "s", "c", "d"),
    ):
        with pytest.raises(UnsupportedError, match=r"'childless' stores all segments .* in one"):
            refused()


def test_capabilities_are_data():
    able = Capabilities(persistent=True, process_local=False)
    assert able.durability == ("process",)
    assert able.max_key_bytes is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        able.persistent = False


def test_the_durability_levels():
    assert DURABILITY_LEVELS == ("process", "power", "changelog")


def test_rows_are_true_where_there_is_something_to_write():
    assert not Rows()
    assert Rows([b"a"], [b"1"])
    assert Rows(deleted_ranges=[(b"a", b"b")])


@pytest.mark.parametrize("kind", [Engine, Database, Namespace, Snapshot])
def test_protocols_cannot_be_made(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind()


class Dictionary(Namespace):
    """The least that a namespace has to be."""

    name = "default"

    def __init__(self, rows):
        self.rows = rows

    def get(self, key):
        return self.rows.get(key)

    def get_many(self, keys):
        return [self.rows.get(key) for key in keys]

    def scan(self, lo=None, hi=None, *, reverse=False):
        for key in sorted(self.rows, reverse=reverse):
            if (lo is None or lo <= key) and (hi is None or key < hi):
                yield [key], [self.rows[key]]

    def approximate_count(self):
        return len(self.rows)


def test_the_first_row_comes_from_a_scan():
    namespace = Dictionary({b"a": b"1", b"b": b"2", b"c": b"3"})
    assert namespace.first() == (b"a", b"1")
    assert namespace.first(b"aa", b"c") == (b"b", b"2")
    assert namespace.first(b"aa", b"c", reverse=True) == (b"b", b"2")
    assert namespace.first(reverse=True) == (b"c", b"3")
    assert namespace.first(b"x") is None
