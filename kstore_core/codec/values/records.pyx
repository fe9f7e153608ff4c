# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The classes of the records that stores return and accept (KIP-258, KIP-1271).

A record is a value with its timestamp or its headers. It is immutable, is compared by value, and
can be pickled.
"""

cimport cython
from libc.stdint cimport int64_t

from kstore_core.codec.headers.headers cimport Headers, as_headers
from kstore_core.codec.primitives.integers cimport as_i64

from types import GenericAlias


@cython.final
@cython.freelist(64)
cdef class ValueAndTimestamp:
    """A value with its timestamp (KIP-258).

    Parameters
    ----------
    value : object
        The value.
    timestamp : int
        The time in milliseconds since the epoch, or -1 if the time is unknown.
    """

    __match_args__ = ("value", "timestamp")

    def __init__(self, value, timestamp):
        if self.made:
            raise TypeError("a ValueAndTimestamp cannot be changed; create a new ValueAndTimestamp")
        self.value = value
        self.timestamp = as_i64(timestamp, "timestamp")
        self.made = True

    @staticmethod
    def make(value, timestamp):
        """Return a record, or None if `value` is None."""
        return None if value is None else ValueAndTimestamp(value, timestamp)

    @staticmethod
    def make_allow_nullable(value, timestamp):
        """Return a record, even if its value is None."""
        return ValueAndTimestamp(value, timestamp)

    @staticmethod
    def get_value_or_none(record):
        """Return the value of a record, or None if `record` is None."""
        return None if record is None else (<ValueAndTimestamp?>record).value

    def __eq__(self, other):
        if type(other) is not ValueAndTimestamp:
            return NotImplemented
        return (
            self.timestamp == (<ValueAndTimestamp>other).timestamp
            and bool(self.value == (<ValueAndTimestamp>other).value)
        )

    def __hash__(self):
        return hash((self.value, self.timestamp))

    def __repr__(self):
        return f"ValueAndTimestamp({self.value!r}, {self.timestamp})"

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        return ValueAndTimestamp, (self.value, self.timestamp)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)


@cython.final
@cython.freelist(256)
cdef class ValueTimestampHeaders:
    """A value with its timestamp and its headers (KIP-1271).

    Parameters
    ----------
    value : object
        The value.
    timestamp : int
        The time in milliseconds since the epoch, or -1 if the time is unknown.
    headers : Headers, iterable of (str, bytes-like or None), or None, optional
        The headers. A Headers object is not copied. Any other object is converted to Headers.
    """

    __match_args__ = ("value", "timestamp", "headers")

    def __init__(self, value, timestamp, headers=None):
        if self.headers is not None:
            raise TypeError("a ValueTimestampHeaders cannot be changed; create a new ValueTimestampHeaders")
        self.value = value
        self.timestamp = as_i64(timestamp, "timestamp")
        self.headers = as_headers(headers)

    @staticmethod
    def make(value, timestamp, headers=None):
        """Return a record, or None if `value` is None."""
        return None if value is None else ValueTimestampHeaders(value, timestamp, headers)

    @staticmethod
    def make_allow_nullable(value, timestamp, headers=None):
        """Return a record, even if its value is None."""
        return ValueTimestampHeaders(value, timestamp, headers)

    @staticmethod
    def get_value_or_none(record):
        """Return the value of a record, or None if `record` is None."""
        return None if record is None else (<ValueTimestampHeaders?>record).value

    def __eq__(self, other):
        cdef ValueTimestampHeaders that
        if type(other) is not ValueTimestampHeaders:
            return NotImplemented
        that = <ValueTimestampHeaders>other
        return (
            self.timestamp == that.timestamp
            and bool(self.value == that.value)
            and self.headers == that.headers
        )

    def __repr__(self):
        return f"ValueTimestampHeaders({self.value!r}, {self.timestamp}, {self.headers!r})"

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        return ValueTimestampHeaders, (self.value, self.timestamp, self.headers)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)


@cython.final
@cython.freelist(64)
cdef class AggregationWithHeaders:
    """The aggregate of a session with its headers (KIP-1271).

    Parameters
    ----------
    aggregation : object
        The aggregate.
    headers : Headers, iterable of (str, bytes-like or None), or None, optional
        The headers. A Headers object is not copied. Any other object is converted to Headers.
    """

    __match_args__ = ("aggregation", "headers")

    def __init__(self, aggregation, headers=None):
        if self.headers is not None:
            raise TypeError("an AggregationWithHeaders cannot be changed; create a new AggregationWithHeaders")
        self.aggregation = aggregation
        self.headers = as_headers(headers)

    @staticmethod
    def make(aggregation, headers=None):
        """Return a record, or None if `aggregation` is None."""
        return None if aggregation is None else AggregationWithHeaders(aggregation, headers)

    @staticmethod
    def make_allow_nullable(aggregation, headers=None):
        """Return a record, even if its value is None."""
        return AggregationWithHeaders(aggregation, headers)

    @staticmethod
    def get_value_or_none(record):
        """Return the aggregation of a record, or None if `record` is None."""
        return None if record is None else (<AggregationWithHeaders?>record).aggregation

    def __eq__(self, other):
        cdef AggregationWithHeaders that
        if type(other) is not AggregationWithHeaders:
            return NotImplemented
        that = <AggregationWithHeaders>other
        return bool(self.aggregation == that.aggregation) and self.headers == that.headers

    def __repr__(self):
        return f"AggregationWithHeaders({self.aggregation!r}, {self.headers!r})"

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        return AggregationWithHeaders, (self.aggregation, self.headers)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)
