"""The exceptions of kstore. ``except KStoreError`` catches all of them.

::

    KStoreError
    ├── EngineError                  a storage engine failed
    │   ├── EngineUnavailableError   the engine's library cannot be loaded
    │   ├── EngineLockedError        another process or handle uses the directory (``.pid``)
    │   ├── CorruptionError          bytes on disk are damaged
    │   ├── StoreClosedError         a store, scan or directory was used after its close
    │   ├── ForkedHandleError        an open handle was used after a fork
    │   ├── StorageFullError         the storage has no space left
    │   ├── StorageUnavailableError  an object store does not answer, or denies access
    │   └── KeyTooLongError          the engine cannot store a key of this length
    ├── FormatError                  bytes are malformed (``.offset``; also ValueError)
    ├── StateError                   a state directory cannot be used in the requested way
    │   ├── FormatDowngradeError     the store on disk has a newer format
    │   ├── InconsistentStateError   the contents of the directory contradict each other
    │   └── UncommittedLimitError    a transaction exceeds ``uncommitted_max_bytes``
    ├── SerdeError                   a serde cannot convert a value (also the serde's own error)
    ├── SpecError                    the description of a store is wrong (also ValueError)
    ├── TopologyError                the description of a topology is wrong (also ValueError)
    ├── UnknownEngineError           no engine with this name is installed (also LookupError)
    ├── PluginError                  a plug-in is missing, unloadable, or breaks its contract
    ├── RetentionExceededError       a read asks for a time before the retained history
    ├── UnsupportedError             the engine or the store does not support the operation
    ├── QueryError                   a query has no result (``.reason``)
    ├── ReadOnlyHeadersError         an attempt to change read-only headers (also TypeError)
    └── CommitConflictError          another writer published this version before

The message of an exception states what failed, where and why, and what to do next.
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
    "TopologyError",
    "UncommittedLimitError",
    "UnknownEngineError",
    "UnsupportedError",
]


class KStoreError(Exception):
    """The base class of all exceptions of kstore."""


class EngineError(KStoreError):
    """A storage engine failed."""


class EngineUnavailableError(EngineError):
    """The plug-in of an engine is installed, but the library of the engine cannot be loaded."""


class EngineLockedError(EngineError):
    """The directory is locked by another process, or by another handle of this process.

    Attributes
    ----------
    pid : int or None
        The id of the process that has locked the directory, or None if the id is unknown.
    """

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class CorruptionError(EngineError):
    """Stored bytes are damaged: a checksum or a check of their structure failed."""


class StoreClosedError(EngineError):
    """A store, scan or directory was used after it had been closed."""


class ForkedHandleError(EngineError):
    """A handle that was opened before a fork was used in the child process."""


class StorageFullError(EngineError):
    """The disk or the map of the engine is full. Committed data are intact."""


class StorageUnavailableError(EngineError):
    """A disk or an object store does not answer or denies access. Committed data are intact."""


class KeyTooLongError(EngineError):
    """A key is too long for the engine. No row of the batch with this key was written."""


class FormatError(KStoreError, ValueError):
    """Bytes are malformed, so they cannot be decoded.

    Attributes
    ----------
    offset : int or None
        The position of the fault in the input, in bytes. None if the position is unknown.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (_format_error, (str(self), self.offset))


def _format_error(message: str, offset: int | None) -> FormatError:
    return FormatError(message, offset=offset)


class SerdeError(KStoreError):
    """A serde cannot convert a key or a value.

    The exception is also an instance of the exception that the serde raised: a TypeError, a
    ValueError, a UnicodeEncodeError or a FormatError. If a serde raises an exception of another
    type, this exception is raised unchanged, with a note.
    """


class StateError(KStoreError):
    """A state directory cannot be used in the requested way."""


class FormatDowngradeError(StateError):
    """The store on disk has a newer format than the spec with which it is opened."""


class InconsistentStateError(StateError):
    """The contents of a state directory contradict each other. Nothing was changed."""


class UncommittedLimitError(StateError):
    """A transactional state directory has more uncommitted bytes than its limit."""


class SpecError(KStoreError, ValueError):
    """The description of a store is invalid, or differs from the description in the directory."""


class TopologyError(KStoreError, ValueError):
    """The description of a topology is invalid, or a name is not in the topology."""


class UnknownEngineError(KStoreError, LookupError):
    """No installed distribution provides an engine with this name."""


class PluginError(KStoreError):
    """A plug-in of ``kstore.plugins`` is missing, cannot be loaded, or breaks its contract."""


class RetentionExceededError(KStoreError):
    """A read asks for a time before the history that the store retains."""


class UnsupportedError(KStoreError):
    """The engine or the shape of the store does not support the operation."""


class QueryError(KStoreError):
    """A query has no result.

    Attributes
    ----------
    reason : str
        A value of :class:`kstore_core.query.FailureReason`.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ReadOnlyHeadersError(KStoreError, TypeError):
    """An attempt to change read-only headers, such as headers from a store.

    Change ``headers.copy()`` instead.
    """


class CommitConflictError(KStoreError):
    """The version cannot be committed: another writer has published a version with its number."""
