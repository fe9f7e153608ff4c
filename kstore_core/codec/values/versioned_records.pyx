# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The records of versioned stores. Immutable, compared by value, picklable."""

cimport cython
from libc.stdint cimport int64_t

from kstore_core.codec.headers.headers cimport Headers, as_headers
from kstore_core.codec.primitives.integers cimport as_i64

from types import GenericAlias


cdef object checked_valid_to(object valid_to):
    """None or an integer of 64 bits, as a Python object, because a C integer cannot be None."""
    return None if valid_to is None else as_i64(valid_to, "valid_to")


@cython.final
@cython.freelist(64)
cdef class VersionedRecord:
    """A version of a value (KIP-889): valid from `timestamp` on and before `valid_to`.

    Parameters
    ----------
    value : object
    timestamp : int
        From when the version is valid, milliseconds since the epoch, inclusive.
    valid_to : int or None, default None
        Until when, exclusive; None for the latest version.
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
        """A record, or None when `value` is None."""
        return None if value is None else VersionedRecord(value, timestamp, valid_to)

    @staticmethod
    def make_allow_nullable(value, timestamp, valid_to=None):
        """A record, also of None."""
        return VersionedRecord(value, timestamp, valid_to)

    @staticmethod
    def get_value_or_none(record):
        """The value of a record, None when `record` is None."""
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
    """A version of a value and its headers (KIP-889, KIP-1271).

    Parameters
    ----------
    value : object
    timestamp : int
        From when the version is valid, milliseconds since the epoch, inclusive.
    valid_to : int or None, default None
        Until when, exclusive; None for the latest version.
    headers : Headers, iterable of (str, bytes-like or None), or None, optional
        Headers are kept as the object they are; anything else makes new ones.
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
        """A record, or None when `value` is None."""
        if value is None:
            return None
        return VersionedRecordWithHeaders(value, timestamp, valid_to, headers)

    @staticmethod
    def make_allow_nullable(value, timestamp, valid_to=None, headers=None):
        """A record, also of None."""
        return VersionedRecordWithHeaders(value, timestamp, valid_to, headers)

    @staticmethod
    def get_value_or_none(record):
        """The value of a record, None when `record` is None."""
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
