"""Where the project's files are."""

from pathlib import Path

__all__ = ["DATA", "DOCS", "GOLDEN", "ROOT", "TESTS"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
DATA = TESTS / "data"
GOLDEN = TESTS / "golden"
