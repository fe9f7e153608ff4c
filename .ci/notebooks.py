"""Notebooks of the documentation: executed by ``python .ci/notebooks.py``, pages by mkdocs.

A notebook keeps its outputs, so that the documentation can be built without executing it. A test
executes it, and holds what it prints to what it keeps.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
_STYLE = re.compile(r"<style scoped>.*?</style>\s*", re.DOTALL)


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each notebook, which stays beside it; called by mkdocs."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            name = Path(file.src_uri).name
            text = markdown(json.loads(Path(file.abs_src_path).read_text()), name)
            page = File.generated(config, file.src_uri.removesuffix("ipynb") + "md", content=text)
            files.append(page)
    return files


def markdown(notebook: dict[str, Any], name: str) -> str:
    """A page of a notebook: its text, its code, and what the code gave."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] for shown in _shown(output)]
    title, *rest = parts
    return "\n\n".join([title, f"[This notebook]({name}) can be downloaded and run.", *rest]) + "\n"


def execute(notebook: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The notebook, executed in ``directory``, with the outputs of that.

    What goes to standard error is left out: it is the machine's.
    """
    import nbformat
    from nbclient import NotebookClient

    given = nbformat.reads(json.dumps(notebook), as_version=4)
    client = NotebookClient(
        given, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(directory)}}
    )
    # A kernel shows pictures by a backend of its own, unless it is told of another.
    client.execute(env={name: text for name, text in os.environ.items() if name != "MPLBACKEND"})
    for cell in given.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            outputs = (o for o in cell.outputs if o.get("name") != "stderr")
            cell.outputs = [_without_count(output) for output in outputs]
            cell.execution_count = None
    given.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return json.loads(nbformat.writes(given))


def printed(notebook: dict[str, Any]) -> list[str]:
    """What each cell of code printed."""
    return [
        "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def kinds(notebook: dict[str, Any]) -> list[list[list[str]]]:
    """In which forms each cell of code gave what it shows."""
    return [
        [sorted(o.get("data", {})) for o in cell["outputs"] if o["output_type"] != "stream"]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def main() -> None:
    """Execute every notebook, and write it with its outputs."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as scratch:
            done = execute(json.loads(path.read_text()), Path(scratch))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
        sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")


def _shown(output: dict[str, Any]) -> Iterator[str]:
    """What an output is in a page: the richest form that there is."""
    if output["output_type"] == "stream":
        yield _fenced("".join(output["text"]))
        return
    data = {kind: "".join(text) for kind, text in output["data"].items()}
    if "image/png" in data:
        yield f'<img alt="" src="data:image/png;base64,{html.escape(data["image/png"].strip())}">'
    elif "text/html" in data:
        inner = re.sub(r"\n\s*", "", _STYLE.sub("", data["text/html"]))
        inner = inner.replace(' border="1" class="dataframe"', "")  # looks like other tables
        yield f'<div class="output" style="overflow-x: auto">{inner}</div>'
    else:
        yield _fenced(data["text/plain"])


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def _without_count(output: Any) -> Any:
    if "execution_count" in output:
        output.execution_count = None
    return output


if __name__ == "__main__":
    main()
