"""The translation of confluent-kafka's errors, by their names, into kstore errors."""

from __future__ import annotations

from kstore_core.errors import (
    CorruptionError,
    EngineError,
    EngineLockedError,
    InconsistentStateError,
    KStoreError,
    SpecError,
    StateError,
)

__all__ = ["REFUSED", "UNREACHABLE", "meaning"]

REFUSED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"})
"""The errors that mean that the brokers reject this client, so that a retry fails too."""

UNREACHABLE = frozenset(
    {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_MSG_TIMED_OUT", "_RESOLVE"}
)
"""The errors that end when a broker can be reached again."""

_Meaning = tuple[type[KStoreError], str]

_NO_TOPIC: _Meaning = (StateError, "there is no such topic or partition; create it")
_FENCED: _Meaning = (EngineLockedError, "another producer has taken over; stop one of the two")
_LOST: _Meaning = (
    EngineError,
    "the producer cannot continue, so the changelog was closed; open the state again",
)
_DAMAGED: _Meaning = (CorruptionError, "the bytes are damaged; check the brokers' disks")
_REPLICAS: _Meaning = (
    EngineError,
    "fewer replicas are in sync than min.insync.replicas requires; restart the missing brokers",
)
_TOO_LARGE: _Meaning = (
    EngineError,
    "a record is larger than the topic allows; raise its max.message.bytes and commit again",
)
_TOO_FAR: _Meaning = (
    EngineError,
    "a record's timestamp is in the future; raise the topic's message.timestamp.after.max.ms",
)
_WITHOUT_KEY: _Meaning = (
    EngineError,
    "the topic refuses a record; a topic with cleanup.policy=compact needs a key in each record",
)
_EXPIRED: _Meaning = (
    InconsistentStateError,
    "the requested records have expired; move the store's directory away, and restore it anew",
)

_MEANINGS: dict[str, _Meaning] = {
    "UNKNOWN_TOPIC_OR_PART": _NO_TOPIC,
    "_UNKNOWN_TOPIC": _NO_TOPIC,
    "_UNKNOWN_PARTITION": _NO_TOPIC,
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "INVALID_TIMESTAMP": _TOO_FAR,
    "INVALID_RECORD": _WITHOUT_KEY,
    "NOT_ENOUGH_REPLICAS": _REPLICAS,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _REPLICAS,
    "INVALID_PRODUCER_EPOCH": _FENCED,
    "PRODUCER_FENCED": _FENCED,
    "_FENCED": _FENCED,
    "_AUTO_OFFSET_RESET": _EXPIRED,
    "OFFSET_OUT_OF_RANGE": _EXPIRED,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": _LOST,
    "UNKNOWN_PRODUCER_ID": _LOST,
    "_FATAL": _LOST,
    "_BAD_MSG": _DAMAGED,
    "_BAD_COMPRESSION": _DAMAGED,
    "INVALID_MSG": _DAMAGED,
    "_INVALID_ARG": (SpecError, "correct the settings"),
}


def meaning(name: str, where: str, timeout_s: float) -> KStoreError:
    """Return the kstore error for an error of Kafka.

    Parameters
    ----------
    name : str
        The error's name in librdkafka.
    where : str
        The beginning of the message: the failed action, the brokers, and the text of the error.
    timeout_s : float
        The time in seconds that passed without an answer.
    """
    if name in REFUSED:
        return EngineError(
            f"{where}: the brokers reject this client; check the credentials and "
            "security.protocol in the settings"
        )
    if name.endswith("_AUTHORIZATION_FAILED"):
        return EngineError(
            f"{where}: the client's user lacks a right. A restore needs Describe and Read. A write "
            "to the log also needs Write, a new topic needs Create, and the check of settings "
            "needs DescribeConfigs. Grant the missing right"
        )
    if name in UNREACHABLE:
        return EngineError(
            f"{where}: no answer within {timeout_s:g} s; check that the brokers run, and that this "
            "machine can reach them under the names that they advertise"
        )
    kind, advice = _MEANINGS.get(name, (EngineError, ""))
    return kind(f"{where}: {advice}" if advice else where)
