"""Code that stands in the documentation, taken out of it to be run."""

from __future__ import annotations

import re

from tests.support.places import DOCS

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(page: str, *, language: str = "python", title: str | None = None) -> list[str]:
    """The code blocks of a page in one language: those of one title, or those that have none."""
    found = _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))
    return [block[3] for block in found if (block[1], block[2]) == (language, title)]


def source(page: str, title: str, *, language: str = "python") -> str:
    """A file that a page shows, in parts or whole.

    Raises
    ------
    LookupError
        The page does not show it.
    """
    parts = blocks(page, language=language, title=title)
    if not parts:
        raise LookupError(f"docs/{page} has no block of {language} with the title {title!r}")
    return "\n\n".join(parts)
