# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The classes of the records of versioned stores, which are immutable and compared by value."""

cimport cython
from libc.stdint cimport int64_t

from kstore_core.codec.headers.headers cimport Headers, as_headers
from kstore_core.codec.primitives.integers cimport as_i64

from types import GenericAlias


cdef object checked_valid_to(object valid_to):
    """Return `valid_to` after a check that it is None or an integer that fits 64 bits."""
    return None if valid_to is None else as_i64(valid_to, "valid_to")


@cython.final
@cython.freelist(64)
cdef class VersionedRecord:
    """A version of a value, which is valid from `timestamp` until `valid_to` (KIP-889).

    Parameters
    ----------
    value : object
        The value.
    timestamp : int
        The time from which the version is valid, in milliseconds since the epoch, inclusive.
    valid_to : int or None, default None
        The time until which the version is valid, in milliseconds since the epoch, exclusive. None
        if the version is the latest.
    """

    cdef readonly object value
    cdef readonly int64_t timestamp
    cdef readonly object valid_to

    __match_args__ = ("value", "timestamp", "valid_to")

    def __cinit__(self, value, timestamp, valid_to=None):
        self.value = value
        self.timestamp = as_i64(timestamp, "timestamp")
        self.valid_to = checked_valid_to(valid_to)

    @staticmethod
    def make(value, timestamp, valid_to=None):
        """Return a record, or None if `value` is None."""
        return None if value is None else VersionedRecord(value, timestamp, valid_to)

    @staticmethod
    def make_allow_nullable(value, timestamp, valid_to=None):
        """Return a record, even if its value is None."""
        return VersionedRecord(value, timestamp, valid_to)

    @staticmethod
    def get_value_or_none(record):
        """Return the value of a record, or None if `record` is None."""
        return None if record is None else (<VersionedRecord?>record).value

    def __eq__(self, other):
        cdef VersionedRecord that
        if type(other) is not VersionedRecord:
            return NotImplemented
        that = <VersionedRecord>other
        return (
            self.timestamp == that.timestamp
            and self.valid_to == that.valid_to
            and bool(self.value == that.value)
        )

    def __hash__(self):
        return hash((self.value, self.timestamp, self.valid_to))

    def __repr__(self):
        return f"VersionedRecord({self.value!r}, {self.timestamp}, valid_to={self.valid_to})"

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        return VersionedRecord, (self.value, self.timestamp, self.valid_to)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)


@cython.final
@cython.freelist(64)
cdef class VersionedRecordWithHeaders:
    """A version of a value with its headers (KIP-889, KIP-1271).

    Parameters
    ----------
    value : object
        The value.
    timestamp : int
        The time from which the version is valid, in milliseconds since the epoch, inclusive.
    valid_to : int or None, default None
        The time until which the version is valid, in milliseconds since the epoch, exclusive. None
        if the version is the latest.
    headers : Headers, iterable of (str, bytes-like or None), or None, optional
        The headers. A Headers object is not copied. Any other object is converted to Headers.
    """

    cdef readonly object value
    cdef readonly int64_t timestamp
    cdef readonly object valid_to
    cdef readonly Headers headers

    __match_args__ = ("value", "timestamp", "valid_to", "headers")

    def __cinit__(self, value, timestamp, valid_to=None, headers=None):
        self.value = value
        self.timestamp = as_i64(timestamp, "timestamp")
        self.valid_to = checked_valid_to(valid_to)
        self.headers = as_headers(headers)

    @staticmethod
    def make(value, timestamp, valid_to=None, headers=None):
        """Return a record, or None if `value` is None."""
        if value is None:
            return None
        return VersionedRecordWithHeaders(value, timestamp, valid_to, headers)

    @staticmethod
    def make_allow_nullable(value, timestamp, valid_to=None, headers=None):
        """Return a record, even if its value is None."""
        return VersionedRecordWithHeaders(value, timestamp, valid_to, headers)

    @staticmethod
    def get_value_or_none(record):
        """Return the value of a record, or None if `record` is None."""
        return None if record is None else (<VersionedRecordWithHeaders?>record).value

    def __eq__(self, other):
        cdef VersionedRecordWithHeaders that
        if type(other) is not VersionedRecordWithHeaders:
            return NotImplemented
        that = <VersionedRecordWithHeaders>other
        return (
            self.timestamp == that.timestamp
            and self.valid_to == that.valid_to
            and bool(self.value == that.value)
            and self.headers == that.headers
        )

    def __repr__(self):
        return (
            f"VersionedRecordWithHeaders({self.value!r}, {self.timestamp}, "
            f"valid_to={self.valid_to}, headers={self.headers!r})"
        )

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        fields = (self.value, self.timestamp, self.valid_to, self.headers)
        return VersionedRecordWithHeaders, fields

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)
