"""The notebook of the documentation: it runs, prints what it keeps, and becomes a page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[2]
NOTEBOOK = REPOSITORY / "docs" / "notebooks" / "pipeline.ipynb"


@pytest.fixture(scope="module")
def notebooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", REPOSITORY / ".ci" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kept() -> dict:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
def test_the_notebook_runs_and_gives_what_it_keeps(notebooks, kept, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # its Spark never gets hot
    done = notebooks.execute(kept, tmp_path)
    assert notebooks.printed(done) == notebooks.printed(kept)
    assert notebooks.kinds(done) == notebooks.kinds(kept)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("default")
def test_the_notebook_of_processors_runs_and_gives_what_it_keeps(notebooks, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    kept = json.loads(NOTEBOOK.with_name("processors.ipynb").read_text(encoding="utf-8"))
    done = notebooks.execute(kept, tmp_path)
    assert notebooks.printed(done) == notebooks.printed(kept)
    assert notebooks.kinds(done) == notebooks.kinds(kept)
    assert "equal: True" in "".join(notebooks.printed(kept))


def test_the_notebook_keeps_its_outputs_and_nothing_of_the_machine(notebooks, kept):
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert "0 differ" in "".join(notebooks.printed(kept))
    assert "the same as before: True" in "".join(notebooks.printed(kept))
    assert sum("image/png" in kinds for cell in notebooks.kinds(kept) for kinds in cell) == 5
    for trace in ("/tmp", "/home", "stderr", "Traceback"):
        assert trace not in text
    assert all(cell.get("execution_count") is None for cell in kept["cells"])


def test_a_page_shows_text_code_and_what_the_code_gave(notebooks):
    def gave(**data):
        return {"output_type": "execute_result", "data": data}

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "more"]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                gave(**{"text/plain": ["x"], "text/html": "<style scoped>a\n</style><b>\n  x</b>"}),
                gave(**{"text/plain": ["Figure"], "image/png": "aGk=\n"}),
                gave(**{"text/plain": ["42"]}),
            ],
        },
    ]
    assert notebooks.markdown({"cells": cells}, "it.ipynb").split("\n\n") == [
        "# Title\nmore",
        "[This notebook](it.ipynb) can be downloaded and run.",
        "```python\nprint(1)\n```",
        "```text\n1\n```",
        '<div class="output" style="overflow-x: auto"><b>x</b></div>',
        '<img alt="" src="data:image/png;base64,aGk=">',
        "```text\n42\n```\n",
    ]
