"""What is written to a store, whatever its kind. Apart from it: killed writers need none of it."""

from __future__ import annotations

from hypothesis import strategies as st

OPS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"a\x00", b"b", b"\xff" * 9]),
        st.none() | st.binary(max_size=3),
        st.integers(0, 90),
        st.lists(
            st.tuples(st.text("xyz", max_size=2), st.none() | st.binary(max_size=2)), max_size=2
        ),
    ),
    max_size=25,
)
"""Key, value, time and headers of each write."""
