"""Kafka's changelogs without the writes that its stores refuse.

Kafka Streams logs a write even if the store refuses it because it is too late, or because it
deletes from a store that retains duplicates. kstore does not log it, on purpose.

The numbers of duplicates in the keys of windows differ, too: kstore goes on after the greatest one
that it finds, so that a put after an open overwrites nothing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["assert_equal_results"]


def assert_equal_results(
    program: dict[str, Any], kafka: dict[str, Any], kstore: dict[str, Any]
) -> None:
    """Compare the results of a program, but for the two differences in changelogs."""
    logs = {name: kafka["changelogs"][name] for name in kafka["changelogs"]}
    own = dict(kstore["changelogs"])
    for store in program["stores"]:
        name = store["name"]
        logs[name] = _without_numbers(store, _accepted(store, logs[name]))
        own[name] = _without_numbers(store, own[name])
    assert kstore["outputs"] == kafka["outputs"]
    assert kstore["stores"] == kafka["stores"]
    assert own == logs


def _accepted(store: dict[str, Any], records: list[Any]) -> list[Any]:
    """The records of a changelog in the form of ``programs.listed`` whose writes were accepted."""
    if store["kind"].startswith("kv"):
        return records
    kept = []
    observed = -1
    for record in records:
        if record[1] is None and store.get("retain_duplicates"):
            continue
        time = _time(store, record)
        observed = max(observed, time)
        if not _is_late(store, time, observed):
            kept.append(record)
    return kept


def _without_numbers(store: dict[str, Any], records: list[Any]) -> list[Any]:
    """The records without the numbers of duplicates, which kstore gives in another way."""
    if not store.get("retain_duplicates"):
        return records
    return [[key[:-8], *rest] for key, *rest in records]


def _time(store: dict[str, Any], record: list[Any]) -> int:
    """The time of the version, the start of the window, or the end of the session."""
    if store["kind"] == "versioned":
        return int(record[2])
    key = bytes.fromhex(record[0])
    return int.from_bytes(key[-12:-4] if store["kind"].startswith("window") else key[-16:-8])


def _is_late(store: dict[str, Any], time: int, observed: int) -> bool:
    if store["kind"] == "versioned":
        return bool(time < observed - store["history_retention_ms"])
    interval = store["segment_interval_ms"]
    horizon = max(0, observed - store["retention_ms"])
    return bool(time // interval < horizon // interval)
