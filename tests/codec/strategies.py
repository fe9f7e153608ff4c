"""What hypothesis draws for the codec's tests."""

from __future__ import annotations

from hypothesis import strategies as st

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.text(st.characters(codec="utf-8"), max_size=12)
BYTES = st.binary(max_size=40)
HEADERS = st.lists(st.tuples(KEYS, st.none() | BYTES), max_size=6)
EXTREMES = st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 1_700_000_000_000])
TIMES = EXTREMES | INT64
