"""Commands that messages tell the reader to run, as a shell takes them."""

from __future__ import annotations

import shlex
from os import PathLike

__all__ = ["command"]


def command(name: str, *arguments: str | PathLike[str], options: str = "") -> str:
    """``kstore <name>`` with its arguments, to be run as it stands.

    Parameters
    ----------
    name : str
    arguments : str or path-like
        PATH, and what follows it. Where one begins with ``-``, they stand behind a ``--``.
    options : str
        As a shell takes them.
    """
    said = [shlex.quote(str(argument)) for argument in arguments]
    if any(str(argument).startswith("-") for argument in arguments):
        words = [options, "--", *said]
    else:
        words = [*said, options]
    return " ".join(filter(None, ["kstore", name, *words]))
