"""Who may import whom. A module imports only what stands in its own group or to the left of it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kstore_core

ORDER = [
    "types errors commands extras interrupts codec headers serdes html shown",
    "engine scratch formats ordered merged arrow metrics directories partition_time notes",
    "staging tables dual opening hookspecs clock keys spec position offsets lock handle",
    "segments storage versioned changelog plugins registry migration recognition record_slot",
    "layers typed query restore_parts restore_rows restore_versions restore_log",
    "stores committed store_layers open_store state",
    "restore draining upgrade migrate checkpoint verify doctor testing exporters",
    "spark plots cli demo",
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names.split()}
FOR_PLUGINS = {"engine", "hookspecs", "interrupts", "ordered", "scratch", "types", "errors"}

CORE = Path(kstore_core.__file__).parent
PLUGINS = CORE.parent / "plugins"


def python_sources(root: Path) -> list[Path]:
    return sorted(
        path for suffix in ("py", "pyx", "pxd", "pyi") for path in root.rglob(f"*.{suffix}")
    )


def imported(source: Path, package: str) -> set[str]:
    """Every module of kstore_core that a source names, inside functions too."""
    text = source.read_text()
    if source.suffix in {".pyx", ".pxd"}:
        text = only_imports(text)
    found = set()
    for node in ast.walk(ast.parse(text, source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *filter(None, [node.module])])
            found.update({base, *(f"{base}.{alias.name}" for alias in node.names)})
    return found


def only_imports(cython: str) -> str:
    """The import statements of a Cython source, each on one line, as Python."""
    flat = re.sub(r"\(([^()]*)\)", lambda inner: inner[1].replace("\n", " "), cython)
    lines = re.findall(r"^\s*((?:from \S+ c?import|c?import) [^#\n]+)", flat, re.MULTILINE)
    return "\n".join(line.strip(" ,").replace("cimport ", "import ") for line in lines)


def top_level(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("kstore_core.")} & RANK.keys()


def test_every_module_has_a_place_in_the_order():
    names = {path.stem for path in python_sources(CORE) if path.parent == CORE}
    names |= {path.parent.name for path in CORE.glob("*/__init__.py")}
    assert names - {"__init__"} <= RANK.keys(), "give the new module its place in ORDER"


@pytest.mark.parametrize(
    "source",
    [path for path in python_sources(CORE) if path != CORE / "__init__.py"],
    ids=lambda path: str(path.relative_to(CORE)),
)
def test_a_module_imports_only_what_stands_to_its_left(source):
    parts = source.relative_to(CORE).with_suffix("").parts
    package = ".".join(["kstore_core", *parts[:-1]])
    right = {name for name in top_level(imported(source, package)) if RANK[name] > RANK[parts[0]]}
    assert not right, f"{source.relative_to(CORE)} imports what stands to its right: {right}"


@pytest.mark.parametrize(
    "source",
    [path for path in python_sources(PLUGINS) if "pyspark_" not in str(path.relative_to(PLUGINS))],
    ids=lambda path: str(path.relative_to(PLUGINS)),
)
def test_an_engine_imports_only_the_spi(source):
    package = ".".join(source.relative_to(PLUGINS).parts[:-1])
    names = imported(source, package)
    assert top_level(names) <= FOR_PLUGINS
    others = {path.name for path in PLUGINS.iterdir()} - {package.split(".")[0]}
    assert not {name.split(".")[0] for name in names} & others


@pytest.mark.parametrize(
    "statement",
    ["import kstore_core", "from kstore_core import open_state, stores, serdes, Headers"],
)
def test_import_loads_no_engine_and_nothing_heavy(statement):
    heavy = ["kstore_lmdb", "kstore_memory", "kstore_rocksdb", "rocksdict", "lmdb", "pyspark"]
    heavy += ["pyarrow", "numpy", "pandas", "click", "rich", "matplotlib"]
    code = f"{statement}; import sys; print(*sorted(set(sys.modules) & set({heavy!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CORE.parent
    )
    assert done.stdout.split() == []
