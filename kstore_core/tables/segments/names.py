"""The names of segments: Kafka's, and those of its older versions.

A segment is named ``<store>.<start>``, the start in ms: its id times the interval. Older names are
``<store>:<start>`` and ``<store>-yyyyMMddHHmm``, in UTC; the rules are those of Kafka's
``AbstractSegments``.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from kstore_core.errors import InconsistentStateError

__all__ = ["by_id", "is_dated", "name_of", "starts"]

_log = logging.getLogger("kstore_core")

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DATE = re.compile(r"[0-9]{12}")  # or strptime takes fewer digits
_LAST = 2**63 - 1


def name_of(store: str, start: int) -> str:
    """Return the name of the segment that begins at ``start`` (ms)."""
    return f"{store}.{start}"


def is_dated(store: str, child: str) -> bool:
    """Return True if a name gives the minute in which the segment begins."""
    return child[len(store) : len(store) + 1] == "-"


def starts(store: str, children: Iterable[str], where: object) -> dict[str, int]:
    """Return the start times (ms) of segments, from their names; ascending.

    A name with an invalid date, or one before 1970, is left out with a warning in the log, as in
    Kafka.

    Raises
    ------
    InconsistentStateError
        A name is not that of a segment of this store.
    """
    found = {}
    for child in children:
        start = _start(store, child, where)
        if start is None:
            _leave_out(child, str(where))
        else:
            found[child] = start
    return dict(sorted(found.items(), key=lambda named: named[1]))


@lru_cache
def _leave_out(child: str, where: str) -> None:
    """Log a warning once, however often the names are read."""
    _log.warning("%s in %s is left out: it names no time of a segment", child, where)


def by_id(store: str, found: Mapping[str, int], where: object, interval_ms: int) -> dict[int, str]:
    """Return the names of segments by their ids.

    Parameters
    ----------
    found : mapping of str to int
        The result of :func:`starts`.

    Raises
    ------
    InconsistentStateError
        A segment does not begin at a multiple of the interval, or two names are the same segment.
    """
    names: dict[int, str] = {}
    for name, start in found.items():
        number = start // interval_ms
        if start % interval_ms and not is_dated(store, name):
            raise InconsistentStateError(
                f"the segment {name!r} in {where} does not begin at a multiple of "
                f"segment_interval_ms={interval_ms}; nothing was changed. Open the store with the "
                "interval that it was written with"
            )
        if number in names:
            raise InconsistentStateError(
                f"{names[number]!r} and {name!r} in {where} are both the segment "
                f"{name_of(store, number * interval_ms)!r}; nothing was changed. Take one of them "
                "away"
            )
        names[number] = name
    return names


def _start(store: str, child: str, where: object) -> int | None:
    mark, rest = child[len(store) : len(store) + 1], child[len(store) + 1 :]
    if child.startswith(store) and mark == "-":
        if not _DATE.fullmatch(rest):
            return None
        try:
            minute = dt.datetime.strptime(f"{rest}+0000", "%Y%m%d%H%M%z")
        except ValueError:
            return None
        start = int(minute.timestamp()) * 1000
    elif child.startswith(store) and mark in (".", ":") and _NUMBER.fullmatch(rest):
        start = int(rest)
    else:
        raise InconsistentStateError(
            f"{child!r} in {where} is no segment of the store {store!r}, whose names are "
            f"{store}.<start in ms>; nothing was changed. Take it away, or open the store that it "
            "belongs to"
        )
    if start > _LAST:
        raise InconsistentStateError(
            f"{child!r} in {where} begins beyond 64 bits, so it is no segment; nothing was changed"
        )
    return start if start >= 0 else None
