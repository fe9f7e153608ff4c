"""The names of segments in Kafka Streams, including the names of its older versions.

A segment is named ``<store>.<start>``. The start is in ms and equals the segment's id times the
segment interval. Older versions used the names ``<store>:<start>`` and ``<store>-yyyyMMddHHmm``
(in UTC). The rules are those of ``AbstractSegments`` in Kafka Streams.
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
_DATE = re.compile(r"[0-9]{12}")  # Without this check, strptime would accept fewer digits.
_LAST = 2**63 - 1


def name_of(store: str, start: int) -> str:
    """Return the name of the segment that begins at ``start`` (ms)."""
    return f"{store}.{start}"


def is_dated(store: str, child: str) -> bool:
    """Return True if a segment's name contains its start as a date with minutes, not in ms."""
    return child[len(store) : len(store) + 1] == "-"


def starts(store: str, children: Iterable[str], where: object) -> dict[str, int]:
    """Return a dict from the names of segments to their start times in ms, sorted by time.

    As in Kafka Streams, a name with an invalid date or a date before 1970 is ignored, with a
    warning in the log.

    Parameters
    ----------
    store : str
        The name of the store.
    children : iterable of str
        The names of the segments.
    where : object
        The directory of the segments, for errors and warnings.

    Raises
    ------
    InconsistentStateError
        A name is not the name of a segment of this store.
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
    """Log a warning about an ignored name. Log it only once, even if the names are read again."""
    _log.warning(
        "%s in %s is ignored, because its name contains no valid start of a segment", child, where
    )


def by_id(store: str, found: Mapping[str, int], where: object, interval_ms: int) -> dict[int, str]:
    """Return a dict from the ids of segments to their names.

    Parameters
    ----------
    store : str
        The name of the store.
    found : mapping of str to int
        The start times of the segments by name, as :func:`starts` returns them.
    where : object
        The directory of the segments, for errors.
    interval_ms : int
        The width of a segment in ms.

    Raises
    ------
    InconsistentStateError
        A segment does not begin at a multiple of the interval, or two names mean the same segment.
    """
    names: dict[int, str] = {}
    for name, start in found.items():
        number = start // interval_ms
        if start % interval_ms and not is_dated(store, name):
            raise InconsistentStateError(
                f"the segment {name!r} in {where} does not begin at a multiple of "
                f"segment_interval_ms={interval_ms}. Nothing was changed. Open the store with the "
                "interval that it was written with"
            )
        if number in names:
            raise InconsistentStateError(
                f"the directories {names[number]!r} and {name!r} in {where} both stand for the "
                f"segment {name_of(store, number * interval_ms)!r}, but each segment must have "
                "only one directory. Nothing was changed. Move one of the two out of the directory"
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
            f"{child!r} in {where} is no segment of the store {store!r}: the name of a segment "
            f"must be {store}.<start in ms>. Nothing was changed. Move {child!r} out of the "
            "directory, or open the store to which it belongs"
        )
    if start > _LAST:
        raise InconsistentStateError(
            f"{child!r} in {where} is no segment, because its start does not fit in 64 bits. "
            f"Nothing was changed. Move {child!r} out of the directory"
        )
    return start if start >= 0 else None
