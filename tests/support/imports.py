"""The import statements of the project's sources, as a graph."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.places import ROOT

CORE = ROOT / "kstore_core"


PLUGINS = ROOT / "plugins"


SOURCES = {".py", ".pyx", ".pxd", ".pyi"}


def imported(source: Path) -> set[str]:
    """The names that a source imports, inside functions too, with the modules that they are of."""
    text = source.read_text()
    if source.suffix in {".pyx", ".pxd"}:
        text = only_imports(text)
    found = set()
    for node in ast.walk(ast.parse(text, source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{source}: imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def only_imports(cython: str) -> str:
    """The import statements of a Cython source, each on one line, as Python."""
    flat = re.sub(r"\(([^()]*)\)", lambda inner: inner[1].replace("\n", " "), cython)
    lines = re.findall(r"^\s*((?:from \S+ c?import|c?import) [^#\n]+)", flat, re.MULTILINE)
    return "\n".join(line.strip(" ,").replace("cimport ", "import ") for line in lines)


def sources(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.suffix in SOURCES)


def modules() -> dict[str, set[str]]:
    """Each module and the modules that it imports, a package's face aside."""
    texts: dict[str, set[str]] = {}
    for base in (ROOT, PLUGINS):
        for package in [CORE] if base == ROOT else sorted(PLUGINS.iterdir()):
            for source in sources(package):
                parts = source.relative_to(base).with_suffix("").parts
                if parts[-1] != "__init__" and source.suffix != ".pyi":
                    texts.setdefault(".".join(parts), set()).update(imported(source))
    return {
        name: {
            found
            for used in names
            if (found := used if used in texts else used.rpartition(".")[0]) in texts
            and found != name
        }
        for name, names in texts.items()
    }
