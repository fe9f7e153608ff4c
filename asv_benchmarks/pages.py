"""Functions that write the tables of a run into a page."""

from __future__ import annotations

import os
import platform

__all__ = ["machine", "placed"]


def machine() -> str:
    """Return a phrase that describes the machine of the run."""
    return f"{os.cpu_count()} processors, and {platform.system()} on {platform.machine()}"


def placed(page: str, found: str, name: str = "measured") -> str:
    """Return the page with ``found`` in place of the tables of the previous run.

    Parameters
    ----------
    page : str
        The page, which has the comments ``<!-- name: begin -->`` and ``<!-- name: end -->``.
    found : str
        The tables of this run, in Markdown.
    name : str
        The name of the part of the page.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{found}\n\n{end}{rest.partition(end)[2]}"
