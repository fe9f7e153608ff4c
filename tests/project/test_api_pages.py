"""docs/api: every public name is on a page, and the examples run."""

import importlib
import re
import sys
from collections import Counter
from types import ModuleType

import griffe
import pytest

import kstore_core
from kstore_core import errors
from tests.support.pages import DOCS, blocks

PAGES = sorted(path.name for path in (DOCS / "api").glob("*.md"))
TEXTS = {name: (DOCS / "api" / name).read_text(encoding="utf-8") for name in PAGES}
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
TEXTS["errors.md"] = (DOCS / "errors.md").read_text(encoding="utf-8")
RENDERED = [path for text in TEXTS.values() for path in DIRECTIVE.findall(text)]
IMPORT = re.compile(r"^\s*from (kstore_core[\w.]*) import ([\w, ]+)", re.MULTILINE)
EXAMPLES_ONLY = "kstore_core.demo"


def resolve(path):
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


MODULES = [path for path in RENDERED if isinstance(resolve(path), ModuleType)]


def public_names():
    """The names of each module that the pages show."""
    shown = {}
    for path in MODULES:
        module = sys.modules[path]
        for name in getattr(module, "__all__", ()):
            shown[path, name] = getattr(module, name)
    for path in RENDERED:
        shown[path.rpartition(".")[::2]] = resolve(path)
    return shown


def test_nothing_is_rendered_twice():
    assert [path for path, count in Counter(RENDERED).items() if count > 1] == []
    for path in RENDERED:
        resolve(path)


def test_every_error_has_a_remedy():
    parts = DIRECTIVE.split(TEXTS["errors.md"])[1:]
    assert parts[::2] == [f"kstore_core.errors.{name}" for name in errors_in_tree()]
    for path, text in zip(parts[::2], parts[1::2], strict=True):
        assert text.strip().startswith("**Remedy.** "), path


def errors_in_tree():
    """The classes in the order of the module."""
    return [name for name in vars(errors) if name in errors.__all__]


def test_every_name_of_the_package_is_on_the_index_and_a_page():
    shown = [id(found) for found in public_names().values()]
    shown += [id(sys.modules[path]) for path in MODULES]
    for name in kstore_core.__all__:
        assert f"`{name}`" in TEXTS["index.md"], name
        assert id(getattr(kstore_core, name)) in shown, name


def test_a_name_that_is_also_a_module_has_a_directive_of_its_own():
    """The generator takes a name that a module has, too, for the module."""
    package = griffe.load("kstore_core", search_paths=[str(DOCS.parent)])
    shown = [id(resolve(path)) for path in RENDERED]
    for (module, name), found in public_names().items():
        member = package[f"{module}.{name}".removeprefix("kstore_core.")]
        if member.is_module:
            assert id(found) in shown, f"{module}.{name}"


def test_what_the_pages_import_is_public():
    names = public_names()
    modules = {id(sys.modules[path]) for path in MODULES}
    shown = {id(found) for found in names.values()} | {id(resolve(path)) for path in RENDERED}
    for page in [DOCS.parent / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*/*.md")]:
        if page.parent.name in ("decisions", "changes"):
            continue
        for module, imported in IMPORT.findall(page.read_text(encoding="utf-8")):
            if module.startswith(EXAMPLES_ONLY):
                continue
            for name in re.findall(r"\w+", imported.split(" as ")[0]):
                found = getattr(importlib.import_module(module), name)
                assert id(found) in shown | modules, f"{page.name}: {module}.{name}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_in_the_navigation_and_its_example_runs(page, tmp_path, monkeypatch):
    assert f"api/{page}" in (DOCS.parent / "mkdocs.yml").read_text()
    monkeypatch.chdir(tmp_path)
    examples = blocks(f"api/{page}")
    assert len(examples) == 1
    exec(compile(examples[0], page, "exec"), {})
