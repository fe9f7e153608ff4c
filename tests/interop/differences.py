"""Where the two give different results on purpose, as data; docs/compatibility.md has the reasons.

A result of Kafka's and one of kstore's agree when they are equal, or when a row here explains the
pair of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.interop.kinds import Kind
from tests.interop.sides import Operation, Run

__all__ = ["DIFFERENCES", "NO_POSITION", "Difference", "disagreements", "lasting"]


@dataclass(frozen=True)
class Difference:
    """A result that differs on purpose.

    Attributes
    ----------
    what : str
        The behaviour of Kafka's that kstore does not share.
    decision : str
        Its number in the list of decisions; empty where it has none.
    explains : callable
        Whether it accounts for an operation's two results: ``explains(kind, operation, kafka's,
        kstore's)``.
    """

    what: str
    decision: str
    explains: Callable[[Kind, Operation, Any, Any], bool]


def _loses_versions(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    """Versions are lost only that end after the range does."""
    last = operation.get("to")
    if operation["op"] != "query_versions" or last is None or not _part_of(kafka, kstore):
        return False
    lost = [version for version in kstore if version not in kafka]
    return all(version["valid_to"] is not None and version["valid_to"] > last for version in lost)


def _arbitrary_duplicate(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    asked = kind.duplicates and operation["op"] == "fetch_one"
    return asked and bool(kstore == {"exception": "UnsupportedError"})


def _loses_prefixes(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    """Rows are lost only of keys that are proper prefixes of the range's last key."""
    last = operation.get("key_to")
    if last is None or not _part_of(kafka, kstore):
        return False
    lost = [row for row in kstore if row not in kafka]
    return all(last.startswith(row[0]["key"]) and last != row[0]["key"] for row in lost)


def _no_sessions_between(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    refused = {"exception": "UnsupportedOperationException"}
    asked = operation["op"] == "find_sessions_between"
    return asked and kafka == refused and isinstance(kstore, list)


def _shows_expired(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    if operation["op"] != "find_sessions_between" or not _part_of(kstore, kafka):
        return False
    ends = [row[0]["end"] for row in kstore]
    return all(row[0]["end"] < min(ends, default=1 << 63) for row in kafka if row not in kstore)


def _forgets_position(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    asked = kind.shape == "versioned" and operation["op"] in ("commit", "state")
    return asked and kafka["offset"] == kstore["offset"]


def _order_of_index(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    keys = [operation.get(name, "") for name in ("key_from", "key_to")]
    if not kind.indexed or keys != [None, None]:
        return False
    return sorted(map(str, kafka)) == sorted(map(str, kstore))


def _no_segment(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    in_segments = kind.shape in ("window", "session") and operation["op"] in ("commit", "state")
    return in_segments and bool(kafka == {"offset": None, "position": {}})


def _idle_removal(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    if kind.shape != "session" or operation["op"] not in ("commit", "state"):
        return False
    further = all(
        offset <= kstore["position"].get(topic, {}).get(partition, -1)
        for topic, offsets in kafka["position"].items()
        for partition, offset in offsets.items()
    )
    return further and bool(kafka["offset"] == kstore["offset"])


def _backwards(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    lo = operation.get("from", operation.get("earliest_end"))
    hi = operation.get("to", operation.get("latest_end"))
    backwards = lo is not None and hi is not None and lo > hi
    nothing = [], {"exception": "IllegalArgumentException"}, {"exception": "ValueError"}
    return backwards and kafka in nothing and kstore in nothing


def _before_the_epoch(kind: Kind, operation: Operation, kafka: Any, kstore: Any) -> bool:
    return operation.get("timestamp", 0) < 0 and bool(kstore == {"exception": "ValueError"})


def _part_of(some: Any, every: Any) -> bool:
    """Whether `some` is `every` without some of its rows, in the same order."""
    if not isinstance(some, list) or not isinstance(every, list):
        return False
    rest = iter(every)
    return all(row in rest for row in some)


NO_POSITION = Difference("the position of a versioned store is not kept", "", _forgets_position)

DIFFERENCES = [
    NO_POSITION,
    Difference("without a segment there is nowhere to keep an offset", "", _no_segment),
    Difference("the removal of a session without segment is not counted", "", _idle_removal),
    Difference("versions are lost from a range of history", "1", _loses_versions),
    Difference("a fetch of one of many duplicates gives any", "10", _arbitrary_duplicate),
    Difference("a range over keys of different lengths loses keys", "16", _loses_prefixes),
    Difference("sessions of all keys by their end are unsupported", "17", _no_sessions_between),
    Difference("sessions by their end are seen until their segment expires", "", _shows_expired),
    Difference("rows of all keys come in the order of the index", "", _order_of_index),
    Difference("a range of times that ends before it begins is empty, or refused", "", _backwards),
    Difference("a version may have a negative time", "", _before_the_epoch),
]


def lasting(kind: Kind, operation: Operation, run_kstore: Run) -> bool:
    """Whether the two stores would differ for good after an operation, on purpose.

    So they do where a versioned store deletes exactly at the time of the latest version: Kafka's
    leaves no tombstone then (decision 15).
    """
    if kind.shape != "versioned" or operation.get("value", None) is not None:
        return False
    if operation["op"] not in ("put", "delete"):
        return False
    latest = run_kstore({"op": "get", "key": operation["key"]})
    return latest is not None and bool(latest["timestamp"] == operation["timestamp"])


def disagreements(
    kind: Kind,
    operations: list[Operation],
    kafka: list[Any],
    kstore: list[Any],
    differences: list[Difference] = DIFFERENCES,
) -> list[tuple[Operation, Any, Any]]:
    """What no difference explains, as (operation, Kafka's result, kstore's)."""
    return [
        (operation, theirs, ours)
        for operation, theirs, ours in zip(operations, kafka, kstore, strict=True)
        if theirs != ours
        and not any(d.explains(kind, operation, theirs, ours) for d in differences)
    ]
