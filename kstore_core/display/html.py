"""Functions that make HTML for notebooks.

Stored data cannot be trusted. So the functions escape all text, and read only the displayed part of
a value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from html import escape
from itertools import islice
from typing import Any

__all__ = ["CELL_CHARACTERS", "NESTING", "ROWS", "Markup", "cell", "duration", "facts", "guarded",
           "moment", "page", "quiet", "rows", "short", "words"]  # fmt: skip

ROWS = 10
"""The greatest number of rows in a table. If there are more rows, a last line says "and more"."""

CELL_CHARACTERS = 120
"""The greatest number of characters of a value that are displayed."""

NESTING = 3
"""The depth to which nested lists and mappings are displayed."""

_WORDS = 500
_ITEMS = 6
_BYTES = 32
_LEFT = ' style="text-align: left; vertical-align: top"'
_QUIET = ' style="opacity: 0.65"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Markup(str):
    """A text that is HTML already and must not be escaped."""

    __slots__ = ()


def page(title: str, *parts: Markup) -> Markup:
    """Return HTML with a title and, below it, the given parts."""
    return Markup(f'<div class="kstore"><strong>{escape(title)}</strong>{"".join(parts)}</div>')


def facts(pairs: Mapping[str, Any]) -> Markup:
    """Return a table that has a name and a value on each line."""
    lines = (
        f"<tr><th{_LEFT}>{escape(k)}</th><td{_LEFT}>{cell(v)}</td></tr>" for k, v in pairs.items()
    )
    return Markup(f"<table>{''.join(lines)}</table>")


def rows(columns: Sequence[str], found: Iterable[Sequence[Any]], *, most: int = ROWS) -> Markup:
    """Return the HTML of a table with the first ``most`` rows.

    The function reads one more row, to see if there are more rows.
    """
    iterator = iter(found)
    head = "".join(f"<th{_LEFT}>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{cell(value)}</td>' for value in row)}</tr>"
        for row in islice(iterator, most)
    )
    more = next(iterator, None) is not None
    last = f"<tr><td colspan={len(columns)}{_QUIET}>… and more</td></tr>" if more else ""
    return Markup(f"<table><thead><tr>{head}</tr></thead><tbody>{body}{last}</tbody></table>")


def cell(value: Any) -> str:
    """Return the HTML of a value in a table. Escape the value unless it is a `Markup`."""
    return value if isinstance(value, Markup) else f"<code>{escape(short(value))}</code>"


def words(text: object) -> Markup:
    """Return the HTML of a text of kstore, which is displayed without quotes."""
    return text if isinstance(text, Markup) else Markup(escape(cut(str(text), _WORDS)))


def quiet(text: str) -> Markup:
    """Return the HTML of a text in a faint colour."""
    return Markup(f"<span{_QUIET}>{escape(cut(text, _WORDS))}</span>")


def moment(milliseconds: int | None, otherwise: str) -> Markup:
    """Return the HTML of a time and of its milliseconds since the epoch.

    For None, return the HTML of the text ``otherwise``.
    """
    if milliseconds is None:
        return quiet(otherwise)
    try:
        text = (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    except OverflowError:
        return Markup(f"{milliseconds} ms")
    short_text = text.replace("+00:00", "Z").replace(".000Z", "Z")
    return Markup(f"{short_text} <span{_QUIET}>({milliseconds})</span>")


def duration(milliseconds: int) -> Markup:
    """Return the HTML of a duration and of its milliseconds.

    The unit of the duration is the largest unit that gives a whole number.
    """
    exact = f"{milliseconds:,} ms"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return Markup(f"{milliseconds // size:,} {unit} <span{_QUIET}>({exact})</span>")
    return Markup(exact)


def short(value: Any, depth: int = NESTING) -> str:
    """Return the shortened ``repr`` of a value. Only the returned part is read."""
    match value:
        case None | bool() | float():
            return repr(value)
        case int():
            return (
                repr(value) if value.bit_length() <= 256 else f"<int of {value.bit_length()} bits>"
            )
        case str():
            return _beginning(
                repr(value[:CELL_CHARACTERS]), len(value), CELL_CHARACTERS, "characters"
            )
        case bytes() | bytearray():
            return _beginning(repr(bytes(value[:_BYTES])), len(value), _BYTES, "bytes")
        case memoryview():
            return f"<memoryview of {value.nbytes} bytes>"
        case dict():
            pairs = (f"{short(k, depth - 1)}: {short(v, depth - 1)}" for k, v in value.items())
            return cut(_nested("{", pairs, "}", value, depth))
        case list():
            return cut(_nested("[", _inner(value, depth), "]", value, depth))
        case tuple():
            return cut(_nested("(", _inner(value, depth), ")", value, depth))
        case set() | frozenset():
            return cut(_nested("{", _inner(value, depth), "}", value, depth))
    return cut(repr(value))


def cut(text: str, most: int = CELL_CHARACTERS) -> str:
    """Return a text. If it has more than ``most`` characters, return its beginning and length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def guarded(show: Callable[[Any], Markup]) -> Callable[[Any], Markup]:
    """Return a function that calls ``show`` and never raises.

    If ``show`` raises an error, the function returns the type of the value and the error's text.
    """

    @wraps(show)
    def guarded_show(thing: Any) -> Markup:
        try:
            return show(thing)
        except Exception as error:  # noqa: BLE001 - the rest of a notebook's cell must be displayed
            what = type(error).__name__
            with contextlib.suppress(Exception):
                what = f"{what}: {error}"
            return quiet(f"{type(thing).__name__} cannot be shown: {what}")

    return guarded_show


def _beginning(text: str, size: int, most: int, unit: str) -> str:
    return text if size <= most else f"{text}… ({size:,} {unit})"


def _inner(values: Iterable[Any], depth: int) -> Iterator[str]:
    return (short(value, depth - 1) for value in values)


def _nested(
    opening: str, parts: Iterator[str], closing: str, whole: Collection[Any], depth: int
) -> str:
    if depth <= 0 and whole:
        return f"{opening}… {len(whole):,} more{closing}"
    shown = list(islice(parts, _ITEMS))
    if len(whole) > len(shown):
        shown.append(f"… {len(whole) - len(shown):,} more")
    return f"{opening}{', '.join(shown)}{closing}"
