# cython: language_level=3
from kstore_core.codec.values.records cimport (
    AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders,
)


cdef ValueAndTimestamp timestamped_record(bytes row)
cdef ValueTimestampHeaders headers_record(bytes row)
cdef AggregationWithHeaders aggregation_record(bytes row)
