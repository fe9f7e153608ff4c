# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""The layouts of stored values, by their names in docs/formats.md."""


cdef int layout_of(object name, Layout *layout) except -1:
    layout.headed = name in ("value_timestamp_headers", "aggregation_with_headers")
    layout.timed = name in ("value_timestamp_headers", "value_and_timestamp")
    if not layout.headed and not layout.timed:
        raise ValueError(
            "layout must be 'value_timestamp_headers', 'value_and_timestamp' or "
            f"'aggregation_with_headers', not {name!r}"
        )
    return 0
