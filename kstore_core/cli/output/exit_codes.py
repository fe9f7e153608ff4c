"""The exit codes of the command line, and the exit code of each error."""

from __future__ import annotations

import click

from kstore_core.cli.output.advice import adapted
from kstore_core.errors import (
    CorruptionError,
    EngineLockedError,
    FormatError,
    InconsistentStateError,
    KStoreError,
    SpecError,
    UnknownEngineError,
    UnsupportedError,
)

__all__ = [
    "CLOSED_PIPE",
    "CORRUPT",
    "DAMAGE",
    "FINDINGS",
    "LOCKED",
    "USAGE",
    "NotFoundError",
    "adapted",
    "exit_code",
]

FINDINGS, USAGE, LOCKED, CORRUPT = 1, 2, 3, 4
CLOSED_PIPE = 141
"""The exit code after the reader of the output has closed the pipe.

A shell reports the same code for a process that SIGPIPE has ended.
"""

DAMAGE = (CorruptionError, InconsistentStateError, FormatError)
"""The errors of a store whose files are damaged or inconsistent."""

_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (EngineLockedError, LOCKED),
    *((kind, CORRUPT) for kind in DAMAGE),
    (SpecError, USAGE),
    (UnknownEngineError, USAGE),
    (UnsupportedError, USAGE),
)


class NotFoundError(KStoreError):
    """The error that the requested store or key does not exist."""


def exit_code(error: Exception) -> int:
    """Return the exit code of an error.

    The code is 2 for wrong usage, 3 for a lock, 4 for damage, and 1 for all other errors.
    """
    if isinstance(error, click.UsageError):
        return USAGE
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FINDINGS)
