"""Translate an error into a message and an exit code."""

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
"""The exit code that a shell reports for a process that SIGPIPE ended: the reader closed the
pipe."""

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
    """The requested store or key does not exist."""


def exit_code(error: Exception) -> int:
    """Return the exit code of an error: 1 findings or not found, 2 usage, 3 locked, 4 corrupt."""
    if isinstance(error, click.UsageError):
        return USAGE
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FINDINGS)
