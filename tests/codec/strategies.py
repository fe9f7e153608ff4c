"""What hypothesis draws for the codec's tests."""

from __future__ import annotations

from hypothesis import strategies as st

from kstore_core.codec import LogRecord

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.text(st.characters(codec="utf-8"), max_size=12)
BYTES = st.binary(max_size=40)
HEADERS = st.lists(st.tuples(KEYS, st.none() | BYTES), max_size=6)
EXTREMES = st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 1_700_000_000_000])
TIMES = EXTREMES | INT64
MAYBE = st.none() | BYTES
Draft = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
DRAFTS = st.lists(st.tuples(st.integers(1, 1000), TIMES, MAYBE, MAYBE, HEADERS), max_size=12)


def records_of(drafts: list[Draft], offset: int = 0) -> list[LogRecord]:
    """Records with gaps between their offsets."""
    records = []
    for gap, timestamp, key, value, headers in drafts:
        offset += gap
        records.append(LogRecord(offset, timestamp, key, value, headers))
    return records
