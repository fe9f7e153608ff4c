"""The errors of kstore: one tree, so one ``except KStoreError`` catches all of them.

::

    KStoreError
    ├── EngineError                  a storage engine failed
    │   ├── EngineUnavailableError   the engine's library cannot be loaded
    │   ├── EngineLockedError        another process or handle holds the directory (``.pid``)
    │   ├── CorruptionError          bytes on disk are not what was written
    │   ├── StoreClosedError         use after close
    │   ├── ForkedHandleError        an open handle was used after a fork
    │   ├── StorageFullError         no space left
    │   ├── StorageUnavailableError  an object store does not answer, or denies access
    │   └── KeyTooLongError          the engine cannot store a key of this length
    ├── FormatError                  bytes that no format allows (``.offset``; also ValueError)
    ├── StateError                   a state directory that cannot be used as asked
    │   ├── FormatDowngradeError     the directory holds a newer format
    │   ├── InconsistentStateError   the contents of the directory contradict each other
    │   └── UncommittedLimitError    a transaction outgrew ``uncommitted_max_bytes``
    ├── SerdeError                   a serde refused a key or value (also the serde's error type)
    ├── SpecError                    a store description that is wrong (also ValueError)
    ├── UnknownEngineError           no engine of this name is installed (also LookupError)
    ├── PluginError                  a plug-in is missing, cannot be loaded or breaks its contract
    ├── RetentionExceededError       a read before the retained history
    ├── UnsupportedError             the engine or shape cannot do this
    ├── QueryError                   a query has no result (``.reason``)
    ├── ReadOnlyHeadersError         a change to headers that a store handed out (also TypeError)
    └── CommitConflictError          another writer published this version first

A message states what failed, where and why, and what to do next.
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
    """The base class of all errors of kstore."""


class EngineError(KStoreError):
    """A storage engine failed."""


class EngineUnavailableError(EngineError):
    """The engine's plug-in is installed, but its library is not."""


class EngineLockedError(EngineError):
    """The directory is held by another process, or by another handle of this one.

    Attributes
    ----------
    pid : int or None
        The holder; None if it is unknown.
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
    """The disk or the engine's map is full; committed data is intact."""


class StorageUnavailableError(EngineError):
    """A disk or an object store does not answer, or denies access; committed data is intact."""


class KeyTooLongError(EngineError):
    """A key is too long for the engine; nothing of its batch was written."""


class FormatError(KStoreError, ValueError):
    """Bytes that no reader of their format can read.

    Attributes
    ----------
    offset : int or None
        The place of the fault, in bytes from the start of the input.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (_format_error, (str(self), self.offset))


def _format_error(message: str, offset: int | None) -> FormatError:
    return FormatError(message, offset=offset)


class SerdeError(KStoreError):
    """A serde refused a key or a value, and the key or value was not written.

    The error is also of the serde's type: a TypeError, a ValueError, a UnicodeEncodeError or, for
    stored bytes, a FormatError. Other errors of a serde are raised unchanged, with a note.
    """


class StateError(KStoreError):
    """A state directory cannot be used in the requested way."""


class FormatDowngradeError(StateError):
    """The store on disk has a newer format than the spec that it is opened with."""


class InconsistentStateError(StateError):
    """The contents of a state directory contradict each other; nothing was changed."""


class UncommittedLimitError(StateError):
    """A transactional state directory has more uncommitted bytes than its limit."""


class SpecError(KStoreError, ValueError):
    """A store description is invalid, or differs from the one in the directory."""


class UnknownEngineError(KStoreError, LookupError):
    """No installed distribution provides an engine of this name."""


class PluginError(KStoreError):
    """A plug-in of ``kstore.plugins`` is missing, cannot be loaded, or breaks its contract."""


class RetentionExceededError(KStoreError):
    """A read as of a time before the store's retained history."""


class UnsupportedError(KStoreError):
    """An operation that this engine or this shape of store does not support."""


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
    """A change of headers that a store returned; change ``headers.copy()`` instead."""


class CommitConflictError(KStoreError):
    """Another writer has already published a version with this number."""
