# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""The row layouts of encoded columns, by their names in docs/formats.md."""


cdef int layout_of(object name, Layout *layout) except -1:
    layout.headed = name in ("value_timestamp_headers", "aggregation_with_headers")
    layout.timed = name in ("value_timestamp_headers", "value_and_timestamp")
    if not layout.headed and not layout.timed:
        raise ValueError(
            f"layout {name!r}: one of 'value_timestamp_headers', 'value_and_timestamp' and "
            "'aggregation_with_headers' is needed"
        )
    return 0
