# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The class of a record in a log."""

cimport cython
from cpython.bytes cimport PyBytes_CheckExact

from kstore_core.codec.headers.headers cimport Headers, as_headers
from kstore_core.codec.primitives.integers cimport as_i64


cdef bytes as_bytes(object data, str what):
    """Return `data` as bytes, or None if `data` is None. A bytes object is not copied."""
    if data is None or PyBytes_CheckExact(data):
        return <bytes>data
    if isinstance(data, (str, int)):
        raise TypeError(f"{what} must be bytes-like or None, not {type(data).__name__}")
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(
            f"{what} must be bytes-like or None, not {type(data).__name__}"
        ) from None


@cython.final
@cython.freelist(256)
cdef class LogRecord:
    """A record of a log. The object is immutable, is compared by value, and can be pickled.

    Parameters
    ----------
    offset : int
        The offset of the record in the log.
    timestamp : int
        The time in milliseconds since the epoch, or -1 if the time is unknown.
    key : bytes-like or None
        The key.
    value : bytes-like or None
        The value, or None for a tombstone.
    headers : Headers, iterable of (str, bytes-like or None), or None, optional
        The headers.
    """

    __match_args__ = ("offset", "timestamp", "key", "value", "headers")

    def __init__(self, offset, timestamp, key, value, headers=None):
        if self.headers is not None:
            raise TypeError("a LogRecord cannot be changed; create a new LogRecord")
        self.offset = as_i64(offset, "offset")
        self.timestamp = as_i64(timestamp, "timestamp")
        self.key = as_bytes(key, "key")
        self.value = as_bytes(value, "value")
        self.headers = as_headers(headers)

    def __eq__(self, other):
        cdef LogRecord record
        if type(other) is not LogRecord:
            return NotImplemented
        record = <LogRecord>other
        return (
            self.offset == record.offset
            and self.timestamp == record.timestamp
            and self.key == record.key
            and self.value == record.value
            and bool(self.headers == record.headers)
        )

    def __repr__(self):
        return (
            f"LogRecord({self.offset}, {self.timestamp}, {self.key!r}, {self.value!r}, "
            f"{self.headers!r})"
        )

    def _repr_html_(self):
        from kstore_core.display.reprs import record_html

        return record_html(self)

    def __reduce__(self):
        return LogRecord, (self.offset, self.timestamp, self.key, self.value, self.headers)


cdef LogRecord new_record(
    int64_t offset, int64_t timestamp, bytes key, bytes value, Headers headers
):
    cdef LogRecord record = LogRecord.__new__(LogRecord)
    record.offset, record.timestamp = offset, timestamp
    record.key, record.value, record.headers = key, value, headers
    return record
