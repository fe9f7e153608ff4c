"""Hypothesis strategies for the contents of stores, which often return edge cases."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kstore_core.engine import Capabilities, Rows

__all__ = ["batches", "bounds", "headers", "keys", "records", "rows", "sorted_rows", "timestamps",
           "values"]  # fmt: skip

_CORNERS = [b"\0", b"\0\0", b"k", b"k\0", b"k\xff", b"kk", b"\xff", b"\xff\xff", b"\xff" * 3]
_ANYTHING = Capabilities(persistent=False, process_local=True)

NAMESPACES = ("default", "offsets", "other")


def keys(able: Capabilities = _ANYTHING, *, max_size: int = 3) -> SearchStrategy[bytes]:
    """Return a strategy for keys that an engine can store. Most are short, so that keys repeat."""
    if able.max_key_bytes is not None:
        max_size = min(max_size, able.max_key_bytes)
    smallest = 0 if able.empty_keys else 1
    corners = [key for key in _CORNERS if len(key) <= max(max_size, 1)]
    return st.binary(min_size=smallest, max_size=max_size) | st.sampled_from(corners)


def values(*, max_size: int = 8) -> SearchStrategy[bytes]:
    """Return a strategy for values, including the empty value."""
    return st.binary(max_size=max_size)


def bounds() -> SearchStrategy[bytes | None]:
    """Return a strategy for the ends of ranges, which may be None, the empty key, or any key."""
    return st.none() | keys(max_size=5)


def headers(*, max_size: int = 3) -> SearchStrategy[list[tuple[str, bytes | None]]]:
    """Return a strategy for headers, which may have repeated names and empty or missing values."""
    pair = st.tuples(
        st.sampled_from(["", "a", "trace-id"]) | st.text(max_size=3),
        st.none() | st.binary(max_size=3),
    )
    return st.lists(pair, max_size=max_size)


def timestamps() -> SearchStrategy[int]:
    """Return a strategy for record times (ms), including negative times."""
    return st.integers(-5, 2**40) | st.sampled_from([0, -1, 2**63 - 1, -(2**63)])


def records() -> SearchStrategy[tuple[bytes, int, list[tuple[str, bytes | None]]]]:
    """Return a strategy for tuples of a value, its time in ms, and its headers."""
    return st.tuples(values(), timestamps(), headers())


def rows(
    able: Capabilities = _ANYTHING, *, max_size: int = 20
) -> SearchStrategy[dict[bytes, bytes]]:
    """Return a strategy for dicts from keys to values."""
    return st.dictionaries(keys(able), values(), max_size=max_size)


def sorted_rows(able: Capabilities = _ANYTHING, *, max_size: int = 20) -> SearchStrategy[Rows]:
    """Return a strategy for the changes that a batch makes in one namespace."""

    def build(changed: dict[bytes, bytes | None], doomed: list[Any]) -> Rows:
        ordered = sorted(changed)
        return Rows(ordered, [changed[key] for key in ordered], doomed)

    changes = st.dictionaries(keys(able), st.none() | values(), max_size=max_size)
    ranges = st.lists(st.tuples(keys(max_size=2), bounds()), max_size=2)
    return st.builds(build, changes, ranges)


def batches(
    able: Capabilities = _ANYTHING, namespaces: tuple[str, ...] = NAMESPACES
) -> SearchStrategy[dict[str, Rows]]:
    """Return a strategy for the batches of :meth:`kstore_core.engine.Database.write`."""
    return st.dictionaries(st.sampled_from(namespaces), sorted_rows(able), max_size=len(namespaces))
