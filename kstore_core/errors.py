"""Every error that kstore raises of its own accord: one tree, so that one ``except`` catches it.

::

    KStoreError
    ├── EngineError                  something went wrong below the tables
    │   ├── EngineUnavailableError   the engine is known, its library cannot be loaded
    │   ├── EngineLockedError        another process or handle holds the directory (``.pid``)
    │   ├── CorruptionError          bytes on disk are not what was written
    │   ├── StoreClosedError         used after close
    │   ├── ForkedHandleError        an open handle was carried over a fork
    │   ├── StorageFullError         no space left
    │   ├── StorageUnavailableError  an object store does not answer, or denies access
    │   └── KeyTooLongError          the engine cannot hold a key of this length
    ├── FormatError                  bytes that no format allows (``.offset``; also ValueError)
    ├── StateError                   a state directory that cannot be used as asked
    │   ├── FormatDowngradeError     the directory holds a newer format
    │   ├── InconsistentStateError   the directory holds what cannot be true at once
    │   └── UncommittedLimitError    a transaction outgrew ``uncommitted_max_bytes``
    ├── SerdeError                   a serde refused a key or value (also what the serde raised)
    ├── SpecError                    a store description that is wrong (also ValueError)
    ├── UnknownEngineError           no engine of this name is installed (also LookupError)
    ├── PluginError                  a plug-in is missing, cannot be loaded or breaks its promise
    ├── RetentionExceededError       a read before the history that is kept
    ├── UnsupportedError             the engine or shape cannot do this
    ├── QueryError                   a query has no result (``.reason``)
    ├── ReadOnlyHeadersError         a change to headers that a store handed out (also TypeError)
    └── CommitConflictError          another writer published this version first

A message says what happened, where, why, and what to do next.
"""

from __future__ import annotations

__all__ = [
    "CommitConflictError",
    "CorruptionError",
    "EngineError",
    "EngineLockedError",
    "EngineUnavailableError",
    "ForkedHandleError",
    "FormatDowngradeError",
    "FormatError",
    "InconsistentStateError",
    "KStoreError",
    "KeyTooLongError",
    "PluginError",
    "QueryError",
    "ReadOnlyHeadersError",
    "RetentionExceededError",
    "SerdeError",
    "SpecError",
    "StateError",
    "StorageFullError",
    "StorageUnavailableError",
    "StoreClosedError",
    "UncommittedLimitError",
    "UnknownEngineError",
    "UnsupportedError",
]


class KStoreError(Exception):
    """Root of the tree."""


class EngineError(KStoreError):
    """A storage engine failed."""


class EngineUnavailableError(EngineError):
    """The engine's plug-in is installed, the library that it needs is not."""


class EngineLockedError(EngineError):
    """The directory is held by another process, or by another handle of this one.

    Attributes
    ----------
    pid : int or None
        The holder, where it could be found out.
    """

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class CorruptionError(EngineError):
    """Stored bytes fail a checksum or a structural check."""


class StoreClosedError(EngineError):
    """The store, scan or directory has been closed."""


class ForkedHandleError(EngineError):
    """An engine that was opened before a fork was used after it."""


class StorageFullError(EngineError):
    """The disk or the engine's map is full; what was committed before is intact."""


class StorageUnavailableError(EngineError):
    """A disk or an object store does not answer, or denies access; what was committed is intact."""


class KeyTooLongError(EngineError):
    """A key exceeds what the engine can hold; nothing of its batch was written."""


class FormatError(KStoreError, ValueError):
    """Bytes that no reader of their format can read.

    Attributes
    ----------
    offset : int or None
        Where in the input the fault was found, in bytes from its start.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (_format_error, (str(self), self.offset))


def _format_error(message: str, offset: int | None) -> FormatError:
    return FormatError(message, offset=offset)


class SerdeError(KStoreError):
    """A serde refused a key or a value; nothing of it was written.

    The error is also what the serde raised: a TypeError, a ValueError, a UnicodeEncodeError or, for
    stored bytes, a FormatError. Other errors of a serde are passed on as they are, with a note.
    """


class StateError(KStoreError):
    """A state directory cannot be used as asked."""


class FormatDowngradeError(StateError):
    """The store on disk is of a newer format than the one it is opened as."""


class InconsistentStateError(StateError):
    """A state directory contradicts itself; nothing in it was changed."""


class UncommittedLimitError(StateError):
    """A transactional state directory holds more uncommitted bytes than it may."""


class SpecError(KStoreError, ValueError):
    """A store description is invalid, or differs from what the directory holds."""


class UnknownEngineError(KStoreError, LookupError):
    """No installed distribution provides an engine of this name."""


class PluginError(KStoreError):
    """A plug-in of ``kstore.plugins`` is missing, cannot be loaded, or breaks a promise."""


class RetentionExceededError(KStoreError):
    """A read as of a time before the history that the store keeps."""


class UnsupportedError(KStoreError):
    """An operation that this engine or this shape of store does not offer."""


class QueryError(KStoreError):
    """A query has no result.

    Attributes
    ----------
    reason : str
        One of :class:`kstore_core.query.FailureReason`.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ReadOnlyHeadersError(KStoreError, TypeError):
    """Headers that a store handed out are read-only; ``headers.copy()`` is not."""


class CommitConflictError(KStoreError):
    """A version of this number was published by another writer in the meantime."""
