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
"""As a shell tells of a process that SIGPIPE has ended: who read has read enough."""

DAMAGE = (CorruptionError, InconsistentStateError, FormatError)
"""Errors of a store that is not as it was written."""

_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (EngineLockedError, LOCKED),
    *((kind, CORRUPT) for kind in DAMAGE),
    (SpecError, USAGE),
    (UnknownEngineError, USAGE),
    (UnsupportedError, USAGE),
)


class NotFoundError(KStoreError):
    """The store or key that was asked for is not there."""


def exit_code(error: Exception) -> int:
    """1 findings or not found, 2 usage, 3 locked, 4 corrupt."""
    if isinstance(error, click.UsageError):
        return USAGE
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FINDINGS)
