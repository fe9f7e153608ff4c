"""The code of the README and of the quick start runs, and prints what stands there."""

import re
import signal
import tomllib
from pathlib import Path

import pytest

from kstore_core import stores
from kstore_core.typed import SessionStore, WindowStore
from kstore_core.typed.segmented import SegmentedStore
from tests.support.page_runs import check_printed, run
from tests.support.places import ROOT


@pytest.fixture
def in_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("page", "blocks"), [("quickstart", 3), ("asyncio", 2), ("processors", 5)])
@pytest.mark.usefixtures("in_empty_directory")
def test_the_first_pages_run_and_print_what_they_say(page, blocks):
    check_printed(f"docs/{page}.md", blocks)


@pytest.mark.parametrize("page", ["windows", "sessions"])
@pytest.mark.usefixtures("in_empty_directory")
def test_the_pages_on_shapes_run_and_print_what_they_say(page):
    assert len([promised for promised in check_printed(f"docs/{page}.md") if promised]) >= 2


@pytest.mark.parametrize(
    ("page", "shape", "faces"),
    [
        ("windows", WindowStore, {"ReadOnlyWindowStore"}),
        ("sessions", SessionStore, {"ReadOnlySessionStore", "ReadOnlySessionStoreWithHeaders"}),
    ],
)
def test_the_pages_on_shapes_tell_of_every_method_and_factory(page, shape, faces):
    text = Path(ROOT, f"docs/{page}.md").read_text()
    for name in vars(shape).keys() | vars(SegmentedStore).keys():
        if not name.startswith("_"):
            assert re.search(rf"[`.]{name}[`(]", text), name
    for name in stores.__all__:
        if page.removesuffix("s") in name:
            assert f"`stores.{name}`" in text
    for face in faces:
        assert f"{face}`" in text


@pytest.mark.usefixtures("in_empty_directory")
def test_the_code_of_the_concepts_runs():
    names, _ = run("docs/concepts.md")
    assert names["rates"].name == "rates"


@pytest.mark.usefixtures("in_empty_directory")
def test_the_readme_example_runs():
    from kstore_core import open_state

    names, printed = run("README.md")
    assert [lines for lines, _ in printed] == ["1.028\n1.201 [Header('source', b'ECB')]\n"]
    with open_state("state/0_0", read_only=True) as state:
        fx = state.open(names["rates"])
        assert fx.get("CHF").value == 1.028
        earlier = fx.get("CHF", as_of=1_421_300_000_000)
        assert (earlier.value, earlier.valid_to) == (1.201, 1_421_334_000_000)
        assert list(earlier.headers) == [("source", b"ECB")]


def test_the_readme_names_every_extra_and_command():
    from kstore_core.cli.app import COMMANDS

    project = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())["project"]
    readme = Path(ROOT, "README.md").read_text()
    for extra in project["optional-dependencies"].keys() - {"dev", "docs"}:
        assert f"`{extra}`" in readme
    text = Path(ROOT, "docs/cli.md").read_text()
    for command in COMMANDS:
        assert f"`kstore {command}" in text, f"docs/cli.md does not tell of kstore {command}"


def test_every_option_of_a_command_is_documented():
    import click

    from kstore_core.cli.app import COMMANDS, kstore

    text = Path(ROOT, "docs/cli.md").read_text()
    context = click.Context(kstore)
    for name in COMMANDS:
        command = kstore.get_command(context, name)
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert f"`{parameter.opts[0]}" in text, f"kstore {name} {parameter.opts[0]}"


def test_the_index_of_decisions_links_every_page():
    index = Path(ROOT, "docs/decisions/index.md").read_text()
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", index))
    folder = Path(ROOT, "docs/decisions")
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    assert linked == pages - {"index.md"}


@pytest.fixture
def terminated_as_before():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    "page",
    [
        "errors",
        "options",
        "embedding",
        "engines/index",
        "engines/lmdb",
        "engines/rocksdb",
        "architecture",
        "index",
        "versioning",
    ],
)
@pytest.mark.usefixtures("in_empty_directory", "terminated_as_before")
def test_the_examples_of_a_page_run_and_print_what_it_shows(page):
    check_printed(f"docs/{page}.md")
