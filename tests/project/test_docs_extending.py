"""The pages on extending kstore name every hook and all of the SPI, and their code runs."""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kstore_core import engine, formats, hookspecs, open_state, stores
from kstore_core.cli.app import kstore
from kstore_core.tables import Bounds
from tests.support.pages import DOCS, blocks, source

ENGINE = "extending/engine.md"
HOOKS = "extending/hooks.md"
SPI = (engine.Engine, engine.Database, engine.Namespace, engine.Snapshot)
DATA = (engine.Capabilities, engine.Rows)


def text(page):
    return (DOCS / page).read_text(encoding="utf-8")


def specs():
    return [
        (name, function)
        for name, function in inspect.getmembers(hookspecs, inspect.isfunction)
        if name.startswith("kstore_")
    ]


def registrars():
    return [
        member
        for name, member in inspect.getmembers(hookspecs, inspect.isclass)
        if name.endswith("Registrar")
    ]


@pytest.mark.parametrize(("name", "function"), specs())
def test_a_hook_is_documented_with_its_arguments(name, function):
    arguments = list(inspect.signature(function).parameters)
    assert f"## `{name}({', '.join(arguments)})`" in text(HOOKS), f"{HOOKS} has no part on {name}"
    section = text(HOOKS).split(f"## `{name}(")[1].split("\n## ")[0]
    for argument in arguments:
        assert re.search(rf"`{argument}[`.(]", section.partition("\n")[2]), f"{name}: {argument}"


@pytest.mark.parametrize(("name", "function"), specs())
def test_a_hook_has_a_whole_docstring(name, function):
    documented = inspect.getdoc(function) or ""
    assert "Parameters\n----------\n" in documented, name
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^{argument} : \w", documented, re.MULTILINE), f"{name}: {argument}"
    returns = inspect.signature(function).return_annotation not in (None, "None")
    assert ("Returns\n-------\n" in documented) == returns, name


def test_every_hook_belongs_to_a_group_and_every_group_is_documented():
    asked = [hook for hooks in hookspecs.HOOKS.values() for hook in hooks]
    assert sorted(asked) == sorted(name for name, _ in specs())
    for group, hooks in hookspecs.HOOKS.items():
        assert f"| `{group}` |" in text(HOOKS), f"{HOOKS} has no row for the group {group}"
        row = text(HOOKS).split(f"| `{group}` |")[1].partition("\n")[0]
        for hook in hooks:
            assert f"`{hook}`" in row, f"{group}: {hook}"
        assert group in text(ENGINE) or group == hookspecs.PLUGINS


@pytest.mark.parametrize("registrar", registrars(), ids=lambda kind: kind.__name__)
def test_a_registrar_says_what_it_refuses(registrar):
    assert "Raises\n------\n" in inspect.getdoc(registrar.add)
    assert "`registrar.add(" in text(HOOKS)


def public(kind):
    names = {name for name in vars(kind) if not name.startswith("_")}
    return sorted(names | {name for name in kind.__annotations__ if not name.startswith("_")})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in SPI for name in public(kind)),
        *((kind, field.name) for kind in DATA for field in dataclasses.fields(kind)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_name_of_the_spi_is_on_the_page(kind, name):
    reference = text(ENGINE).split("## The whole interface")[1]
    title = f"| **`{kind.__name__}`** | |"
    assert title in reference, f"{ENGINE} has no part on {kind.__name__}"
    part = reference.split(title)[1].split("| **")[0]
    cells = [row.split("|")[1] for row in part.splitlines() if row.startswith("|")]
    assert any(f"`{name}`" in cell for cell in cells), f"{ENGINE}: {kind.__name__}.{name}"


def code_lines(python):
    """Lines of code: neither blank, nor comments, docstrings or imports."""
    other = set()
    for node in ast.walk(ast.parse(python)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            other.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            other.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(python.splitlines(), 1)
    return [
        line
        for number, line in lines
        if number not in other and line.strip() and not line.strip().startswith("#")
    ]


def test_the_engine_is_as_short_as_the_page_says():
    assert "in under 150 lines of code" in " ".join(text(ENGINE).split())
    assert len(code_lines(source(ENGINE, "kstore_sqlite.py"))) < 150


@pytest.fixture
def build(fresh, tmp_path, monkeypatch):
    """Put what a page shows on the path: its modules, and a distribution by its pyproject.toml."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)

    def put(page, modules, groups, name="kstore-shown", version="1.0"):
        for module in modules:
            sys.modules.pop(module, None)
            (site / f"{module}.py").write_text(source(page, f"{module}.py"), encoding="utf-8")
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
                for group, points in groups.items()
            )
        )
        importlib.invalidate_caches()

    shown = {
        name: sys.modules.get(name) for name in ("kstore_seal", "kstore_greet", "kstore_sqlite")
    }
    yield put
    for name, module in shown.items():
        sys.modules.pop(name, None)
        if module is not None:  # a test of its own has it
            sys.modules[name] = module


def run(*arguments):
    result = CliRunner().invoke(kstore, list(arguments), prog_name="kstore", catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_engine_is_installed_as_the_page_says(build):
    project = tomllib.loads(source(ENGINE, "pyproject.toml", language="toml"))
    groups = project["project"]["entry-points"]
    assert project["tool"]["setuptools"]["py-modules"] == list(groups[hookspecs.ENGINES].values())
    build(
        ENGINE, ["kstore_sqlite"], groups, project["project"]["name"], project["project"]["version"]
    )
    shown = re.findall(r"^sqlite  .*$", text(ENGINE), re.MULTILINE)
    (listed,) = [line for line in run("engines").splitlines() if line.startswith("sqlite ")]
    assert [line.split() for line in shown] == [listed.split()]
    exec(source(ENGINE, "use"), {})
    with open_state("state", read_only=True) as state:
        assert state.engine.name == "sqlite"
        assert state.open(stores.key_value("orders")).get(b"o-1") == b"12"


def test_the_layer_of_the_page_masks_what_is_stored(build):
    groups = tomllib.loads(source(HOOKS, "pyproject.toml", language="toml"))
    assert list(groups["project"]["entry-points"]) == [hookspecs.ENGINES, hookspecs.PLUGINS]
    build(HOOKS, ["kstore_seal"], {hookspecs.PLUGINS: {"seal": "kstore_seal"}})
    with open_state("state", engine="memory") as state:
        store = state.open(stores.timestamped_key_value_with_headers("secret-orders"))
        store.put(b"k", b"quiet", timestamp=5, headers=[("h", b"x")])
        assert (store.get(b"k").value, list(store.get(b"k").headers)) == (b"quiet", [("h", b"x")])
        assert [key for key, _ in store.all(reverse=True)] == [b"k"]
        ((_, (stored,)),) = store.table.below.scan(Bounds())
        assert b"quiet" not in stored
        open_one = state.open(stores.key_value("orders"))
        open_one.put(b"k", b"loud")
        assert open_one.table.get(b"k") == b"loud"
    (require,) = blocks(HOOKS)
    exec(require, {})


def test_the_command_of_the_page_runs(build):
    build(HOOKS, ["kstore_greet"], {hookspecs.PLUGINS: {"greet": "kstore_greet"}})
    assert run("greet", "you") == "hello you\n"
    assert "  greet " in run("--help")


def test_the_format_of_the_page_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = dict(formats.FORMATS)
    names = {}
    try:
        for block in blocks("extending/format.md"):
            exec(block, names)
    finally:
        formats.FORMATS.clear()
        formats.FORMATS.update(known)
        names["database"].close()
    with pytest.raises(names["FormatError"], match="checksum"):
        names["checked_value"](bytes.fromhex("83dcefb6 31"))


def test_the_places_of_a_format_are_there():
    places = text("extending/format.md").split("## The places")[1]
    found = re.findall(r"^\| `([^`]+)` \|", places, re.MULTILINE)
    assert len(found) > 5
    for place in [*found, "tests/golden/codec.jsonl", "tests/data"]:
        assert Path(DOCS.parent, place).exists(), place


def test_the_index_links_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", text("extending/index.md")))
    pages = {path.name for path in (DOCS / "extending").glob("*.md")}
    assert pages - {"index.md"} <= linked
    for page in linked:
        assert (
            f"extending/{page}" in Path(DOCS.parent, "mkdocs.yml").read_text() or page not in pages
        )
