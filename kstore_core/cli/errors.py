"""What an error becomes on the command line: a message and an exit code."""

from __future__ import annotations

import re

import click

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

__all__ = ["CORRUPT", "FINDINGS", "LOCKED", "USAGE", "NotFoundError", "exit_code", "spoken"]

FINDINGS, USAGE, LOCKED, CORRUPT = 1, 2, 3, 4

_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (EngineLockedError, LOCKED),
    (CorruptionError, CORRUPT),
    (InconsistentStateError, CORRUPT),
    (SpecError, USAGE),
    (UnknownEngineError, USAGE),
    (UnsupportedError, USAGE),
    (FormatError, CORRUPT),
)


_READ_OR_WAIT = re.compile(r"(, wait with lock_timeout_s=…)?, or open it with read_only=True")
_ARGUMENT = re.compile(r"\b[a-z_]+=(True)?[,;] (?=--)")
"""One of Python's, before the option that it is on the command line."""


class NotFoundError(KStoreError):
    """The store or key that was asked for is not there."""


def exit_code(error: Exception) -> int:
    """1 findings or not found, 2 usage, 3 locked, 4 corrupt."""
    if isinstance(error, click.UsageError):
        return USAGE
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FINDINGS)


def spoken(message: str) -> str:
    """A message without what only Python can say: a command that writes can but be run again."""
    return _ARGUMENT.sub("", _READ_OR_WAIT.sub(", and try again", message))
