# cython: language_level=3
"""The conversions between users' values and stored bytes, with one class for each format."""

cimport cython
from cpython.bytes cimport PyBytes_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t

from kstore_core.codec.values.records cimport (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from kstore_core.codec.values.stored_records cimport (
    aggregation_record,
    headers_record,
    timestamped_record,
)
from kstore_core.codec.values.with_timestamp cimport stamped
from kstore_core.codec.values.with_headers cimport joined
from kstore_core.layers.current_record cimport CurrentRecord

from kstore_core.codec import (
    Headers,
    VersionedRecord,
    VersionedRecordWithHeaders,
    decode_aggregation_with_headers,
    encode_aggregation_with_headers,
    encode_column,
)
from kstore_core import serdes
from kstore_core.codec.arrow.decoder import binary_column, bytes_list, decode_rows
from kstore_core.formats import (
    ORDERED_SESSION_HEADERS,
    ORDERED_TIMESTAMPED,
    ORDERED_TIMESTAMPED_HEADERS,
    PLAIN,
    SESSION_HEADERS,
    TIMESTAMPED,
    TIMESTAMPED_HEADERS,
    VERSIONED,
    VERSIONED_HEADERS,
)
from kstore_core.typed.serde_failures import serde_error
from kstore_core.types import to_millis

__all__ = ["SerdeAdapter", "Values", "values_of"]

cdef extern from "Python.h":
    PyObject *PyObject_CallOneArg(object function, object argument)
    PyObject *PyUnicode_AsUTF8String(object text)


cdef dict _WITH_HEADERS = {
    "key_value": "stores.timestamped_key_value_with_headers",
    "versioned": "stores.versioned_key_value_with_headers",
    "window": "stores.timestamped_window_with_headers",
    "session": "stores.session_with_headers",
}


@cython.final
cdef class SerdeAdapter:
    """A wrapper that calls a serde in the fastest way that its type allows.

    Parameters
    ----------
    serde : Serde
    part : {"key", "value"}
    store : str
        The store's name, for error messages.
    """

    def __cinit__(self, serde, str part, str store):
        self.serde = serde
        self._of = f"the {part} serde {serde.name!r} of the store {store!r}"
        if serde is serdes.BYTES:
            self.kind = AS_BYTES
        elif serde is serdes.UTF8:
            self.kind = AS_TEXT
        elif isinstance(serde, serdes.BuiltInSerde):
            self.kind = BUILT_IN
        else:
            self.kind = CUSTOM
            return
        self._encode = serde.encode
        self._decode = serde.decode

    # Errors are handled after a call has returned NULL: a try block would make each call slower.

    cdef bytes write(self, object value, object key):
        """Serialise a value by a built-in serde. Error messages name ``key``."""
        cdef PyObject *data
        if self.kind == AS_BYTES and PyBytes_CheckExact(value):
            return <bytes>value
        if self.kind == AS_TEXT and type(value) is str:
            data = PyUnicode_AsUTF8String(value)
        else:
            data = PyObject_CallOneArg(self._encode, value)
        return <bytes>made(self, data, key)

    cdef object write_with(self, object value, object headers, object key):
        """Serialise a value by a user's serde, which gets the headers and may return None."""
        try:
            data = self.serde.serialize(value, headers)
            if data is not None and not PyBytes_CheckExact(data):
                raise TypeError(f"serialize must return bytes, not {type(data).__name__}")
        except Exception as error:
            self.failed(error, key)
        return data

    cdef object read(self, object data, object headers, object key):
        """Deserialise bytes by a built-in or a user's serde. Error messages name ``key``."""
        if self.kind == AS_BYTES:
            return data
        if self.kind != CUSTOM:
            return made(self, PyObject_CallOneArg(self._decode, data), key)
        return self.read_with(data, headers, key)

    cdef object read_with(self, object data, object headers, object key):
        """Deserialise bytes by a user's serde, which gets the headers."""
        try:
            return self.serde.deserialize(data, headers)
        except Exception as error:
            self.failed(error, key)

    cdef object _raised(self, object key):
        """Raise the current Python error, with the names of the serde and the key added."""
        try:
            raise_pending()
        except Exception as error:
            self.failed(error, key)

    cdef object failed(self, object error, object key):
        """Raise the error of a serde, with the names of the serde and the key added."""
        at = "" if key is None else f" at the key {_short(key)}"
        raised = serde_error(error, f"{self._of} failed{at}")
        raise raised from (None if raised is error else error)


cdef inline object made(SerdeAdapter side, PyObject *new, object key):
    """Return the result of a call to Python's C API. If the result is NULL, raise the error."""
    if new is NULL:
        side._raised(key)
    given = <object>new
    Py_DECREF(given)
    return given


cdef int raise_pending() except -1:
    return -1


cdef class Values:
    """A converter between users' values and stored values of one format.

    Parameters
    ----------
    spec : StoreSpec
    current_record : CurrentRecord
        The object that returns the input record. A write without a time or headers takes the
        time or headers of this record.
    """

    def __cinit__(self, spec, CurrentRecord current_record):
        self.key = SerdeAdapter(spec.key, "key", spec.name)
        self.value = SerdeAdapter(spec.value, "value", spec.name)
        self.current_record = current_record
        self._with_headers = _WITH_HEADERS[spec.shape]
        # Built-in serdes ignore headers, so no headers are made for them.
        self._ignores_headers = self.key.kind != CUSTOM and self.value.kind != CUSTOM

    cpdef bytes raw_key(self, object key):
        """Serialise a key, with the headers of the current input record.

        Raises
        ------
        TypeError
            The key, or its serialised form, is None.
        """
        if key is None:
            raise TypeError("key cannot be None")
        if self.key.kind != CUSTOM:
            return self.key.write(key, key)
        return self._custom_key(key, self._context_headers())

    def _custom_key(self, key, headers):
        if key is None:
            raise TypeError("key cannot be None")
        data = self.key.write_with(key, headers, key)
        if data is None:
            raise TypeError(f"the key serde {self.key.serde.name!r} serialized {key!r} to None, but must return bytes")
        return data

    cdef tuple _serialized(self, object key, object value, object headers):
        """Serialise the key and then the value. Each serde may add headers."""
        if self._ignores_headers:
            return self.raw_key(key), None if value is None else self.value.write(value, key)
        cdef object raw_key = self._custom_key(key, headers) if self.key.kind == CUSTOM else (
            self.raw_key(key)
        )
        if value is None:
            return raw_key, None
        if self.value.kind == CUSTOM:
            return raw_key, self.value.write_with(value, headers, key)
        return raw_key, self.value.write(value, key)

    cdef object _context_headers(self):
        """Return a copy of the input record's headers, or None if the serdes ignore headers."""
        if self._ignores_headers:
            return None
        context = self.current_record.now()
        return Headers() if context is None else context.headers.copy()

    cdef object _lent_headers(self):
        """Return the headers of the input record without copying them, or None without a record."""
        context = self.current_record.now()
        return None if context is None else context.headers

    cdef int64_t _time(self, object timestamp) except? -1:
        """Return ``timestamp`` in ms if it is given, or the time of the current input record."""
        if type(timestamp) is int:
            try:
                return timestamp
            except OverflowError:
                pass
        if timestamp is None:
            context = self.current_record.now()
            timestamp = None if context is None else context.timestamp
            if timestamp is None:
                raise TypeError(
                    "a timestamp is missing: pass timestamp=…, pass a value that contains a "
                    "timestamp, or write within state.record(timestamp=…)"
                )
        return to_millis(timestamp)

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        """Return the row of a put as ``(raw key, raw value)``. The raw value None deletes the key."""
        raise NotImplementedError

    def read(self, bytes raw, key=None):
        """Return the value of a stored row, or None if the serde returns None.

        Error messages name ``key``, which is the user's key or the bytes of this key.
        """
        return self.value_of(raw, key)

    cdef object value_of(self, bytes raw, object key):
        raise NotImplementedError

    cpdef tuple item(self, bytes raw_key, object raw):
        """Return the key and the value of a stored row."""
        key = self.key.read(raw_key, Headers() if self.key.kind == CUSTOM else None, raw_key)
        return key, self.value_of(raw, raw_key)

    def table(self, keys, raws, bint headers=True):
        """Return stored rows as a ``pyarrow.Table``. It has headers only if ``headers`` is True.

        Parameters
        ----------
        keys, raws : list of bytes, or PackedBytes
        """
        import pyarrow as pa

        column, others = self._columns(raws, headers)
        return pa.table({**self._key_and_value(keys, raws, column), **others})

    def rows(self, keys, column, timestamps, headers):
        """Return the raw keys and raw values of many puts as two lists. The value None deletes a
        key.

        Parameters
        ----------
        keys, column, timestamps, headers : Arrow arrays, sequences, or None for the last two
        """
        if not (self._ignores_headers and _is_arrow(keys) and _is_arrow(column)):
            return self._rows_one_by_one(
                _values(self.key, keys), _values(self.value, column),
                _listed(timestamps), _listed(headers),
            )
        if keys.null_count:
            raise TypeError("key cannot be None")
        raws = self._encoded_column(
            self._serialized_column(self.value, column), timestamps, headers
        )
        if raws is None:
            return self._rows_one_by_one(
                _values(self.key, keys), _values(self.value, column),
                _listed(timestamps), _listed(headers),
            )
        return bytes_list(self._serialized_column(self.key, keys)), bytes_list(raws)

    def _rows_one_by_one(self, keys, column, timestamps, headers):
        cdef list raw_keys = [], raws = []
        cdef Py_ssize_t i
        for i in range(len(keys)):
            raw_key, raw = self.row(
                keys[i], column[i],
                None if timestamps is None else timestamps[i],
                None if headers is None else _pairs(headers[i]),
            )
            raw_keys.append(raw_key)
            raws.append(raw)
        return raw_keys, raws

    def _serialized_column(self, SerdeAdapter side, column):
        """Serialise a column by a built-in serde. A null element remains null."""
        from kstore_core import arrow

        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        try:
            return arrow.to_binary(side.serde, column)
        except Exception as error:
            side.failed(error, None)

    def _encoded_column(self, column, timestamps, headers):
        """Return the column of raw values, or None if the rows must be encoded one by one."""
        raise NotImplementedError

    def _key_and_value(self, keys, rows, column):
        """Return the deserialised keys and values of rows as two columns."""
        from kstore_core import arrow

        if self._ignores_headers:
            return {
                "key": self._column(self.key, binary_column(keys)),
                "value": self._column(self.value, column),
            }
        items = [self.item(key, row) for key, row in zip(keys, rows)]
        return {
            "key": arrow.from_values(self.key.serde, [key for key, _ in items]),
            "value": arrow.from_values(
                self.value.serde, [self.bare(record) for _, record in items]
            ),
        }

    def _column(self, SerdeAdapter side, data):
        """Deserialise a column of keys or values to the Arrow type of the serde."""
        from kstore_core import arrow

        try:
            return arrow.to_typed(side.serde, data)
        except Exception as error:
            side.failed(error, None)

    def bare(self, record):
        """Return the value that a record contains, or None if the record is None."""
        return None if record is None else record.value

    def _columns(self, raws, bint headers):
        """Return the serialised values of rows as a column, and a dict of the other columns."""
        column, timestamps, lists = decode_rows(raws, self._layout, headers=headers)
        others = {} if timestamps is None else {"timestamp": timestamps}
        if lists is not None:
            others["headers"] = lists
        return column, others


cdef class PlainValues(Values):
    """A converter of values without timestamps and headers."""

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        if timestamp is not None or headers is not None:
            raise TypeError(
                "this store stores neither timestamps nor headers. Pass neither, or open the store "
                f"with a spec from {self._with_headers}"
            )
        return self._serialized(key, value, self._context_headers())

    cdef object value_of(self, bytes raw, object key):
        return self.value.read(raw, Headers() if self.value.kind == CUSTOM else None, key)

    def _encoded_column(self, column, timestamps, headers):
        return column if timestamps is None and headers is None else None

    def bare(self, record):
        return record


cdef class TimestampedValues(Values):
    """A converter of values with timestamps, which users get as :class:`ValueAndTimestamp`."""

    def __cinit__(self, *_):
        self._layout = "value_and_timestamp"

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        if headers is not None:
            raise TypeError(
                "this store stores no headers. Pass none, or open the store with a spec from "
                f"{self._with_headers}"
            )
        cdef ValueAndTimestamp whole
        if type(value) is ValueAndTimestamp:
            whole = <ValueAndTimestamp>value
            timestamp = _only(whole.timestamp, timestamp)
            value = whole.value
        cdef int64_t millis = 0 if value is None else self._time(timestamp)
        raw_key, data = self._serialized(key, value, self._context_headers())
        return raw_key, None if data is None else stamped(data, millis)

    cdef object value_of(self, bytes raw, object key):
        cdef ValueAndTimestamp record = timestamped_record(raw)
        if self.value.kind != AS_BYTES:
            record.value = self.value.read(
                record.value, Headers() if self.value.kind == CUSTOM else None, key
            )
        return None if record.value is None else record

    def _encoded_column(self, column, timestamps, headers):
        if headers is not None or not _is_arrow(timestamps):
            return None
        return encode_column(column, timestamps, layout="value_and_timestamp")


cdef class HeadersValues(Values):
    """A converter of values with timestamps and headers (:class:`ValueTimestampHeaders`)."""

    def __cinit__(self, *_):
        self._layout = "value_timestamp_headers"

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        cdef ValueTimestampHeaders whole
        if type(value) is ValueTimestampHeaders:
            whole = <ValueTimestampHeaders>value
            timestamp = _only(whole.timestamp, timestamp)
            headers = _only(whole.headers, headers)
            value = whole.value
        elif headers is None:
            headers = self._lent_headers()
        if not self._ignores_headers:
            # Copy the headers: serdes may add headers to the row, but not to the caller's object.
            headers = Headers(headers)
        if value is None:
            # The headers of a tombstone go only to the changelog, because the row has no value.
            return self._serialized(key, None, headers)
        cdef int64_t millis = self._time(timestamp)
        cdef object raw_key, data
        if self._ignores_headers:  # the tuple of _serialized takes 5 % of a put
            raw_key, data = self.raw_key(key), self.value.write(value, key)
        else:
            raw_key, data = self._serialized(key, value, headers)
        return raw_key, None if data is None else joined(data, headers, True, millis)

    cdef object value_of(self, bytes raw, object key):
        cdef ValueTimestampHeaders record = headers_record(raw)
        if self.value.kind != AS_BYTES:
            record.value = self.value.read(record.value, record.headers, key)
        return None if record.value is None else record

    cpdef tuple item(self, bytes raw_key, object raw):
        record = self.value_of(raw, raw_key)
        if self.key.kind != CUSTOM:
            return self.key.read(raw_key, None, raw_key), record
        headers = Headers() if record is None else record.headers
        return self.key.read(raw_key, headers, raw_key), record

    def _encoded_column(self, column, timestamps, headers):
        if not _is_arrow(timestamps) or not self._has_headers(headers):
            return None
        return encode_column(column, timestamps, headers)

    def _has_headers(self, headers):
        """Return True if ``headers`` is an Arrow column, or if no row gets any headers."""
        return _is_arrow(headers) or (headers is None and self.current_record.now() is None)


cdef class VersionedValues(Values):
    """A converter of versions (:class:`VersionedRecord`). Their bytes do not contain the time."""

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        if headers:
            raise TypeError(
                "this store stores no headers. Pass none, or open the store with a spec from "
                f"{self._with_headers}"
            )
        return self._serialized(key, value, self._context_headers())

    cpdef object record(self, bytes raw, object timestamp, object valid_to, object key=None):
        """Return a version as a record that contains the start and the end of its validity."""
        value = self.value.read(raw, Headers() if self.value.kind == CUSTOM else None, key)
        return None if value is None else VersionedRecord(value, timestamp, valid_to)

    cpdef tuple item(self, bytes raw_key, object version):
        raw, timestamp, valid_to = version
        record = self.record(raw, timestamp, valid_to, raw_key)
        if self.key.kind != CUSTOM:
            return self.key.read(raw_key, None, raw_key), record
        headers = getattr(record, "headers", None) or Headers()
        return self.key.read(raw_key, headers, raw_key), record

    def table(self, keys, versions, bint headers=True):
        import pyarrow as pa

        column, others = self._columns([raw for raw, _, _ in versions], headers)
        return pa.table(
            {
                **self._key_and_value(keys, versions, column),
                "timestamp": pa.array([timestamp for _, timestamp, _ in versions], pa.int64()),
                "valid_to": pa.array([valid_to for _, _, valid_to in versions], pa.int64()),
                **others,
            }
        )

    def _encoded_column(self, column, timestamps, headers):
        return column if headers is None else None


cdef class VersionedHeadersValues(VersionedValues):
    """A converter of versions with headers (:class:`VersionedRecordWithHeaders`)."""

    def __cinit__(self, *_):
        self._layout = "aggregation_with_headers"

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        if headers is None:
            headers = self._lent_headers()
        if not self._ignores_headers:
            headers = Headers(headers)
        raw_key, raw = self._serialized(key, value, headers)
        return raw_key, encode_aggregation_with_headers(raw, headers)

    cpdef object record(self, bytes raw, object timestamp, object valid_to, object key=None):
        data, headers = <tuple>decode_aggregation_with_headers(raw)
        value = self.value.read(data, headers, key)
        if value is None:
            return None
        return VersionedRecordWithHeaders(value, timestamp, valid_to, headers)

    def _encoded_column(self, column, timestamps, headers):
        if not (_is_arrow(headers) or (headers is None and self.current_record.now() is None)):
            return None
        return encode_column(column, headers=headers, layout="aggregation_with_headers")


cdef class SessionHeadersValues(HeadersValues):
    """A converter of aggregates with headers (:class:`AggregationWithHeaders`)."""

    def __cinit__(self, *_):
        self._layout = "aggregation_with_headers"

    cpdef tuple row(self, object key, object value, object timestamp, object headers):
        if timestamp is not None:
            raise TypeError("a session store takes no timestamp, because the end of a session is its timestamp")
        if type(value) is AggregationWithHeaders:
            headers = _only(value.headers, headers)
            value = value.aggregation
        elif headers is None:
            headers = self._lent_headers()
        if not self._ignores_headers:
            headers = Headers(headers)
        raw_key, data = self._serialized(key, value, headers)
        return raw_key, None if data is None else encode_aggregation_with_headers(data, headers)

    cdef object value_of(self, bytes raw, object key):
        cdef AggregationWithHeaders record = aggregation_record(raw)
        if self.value.kind != AS_BYTES:
            record.aggregation = self.value.read(record.aggregation, record.headers, key)
        return None if record.aggregation is None else record

    def _encoded_column(self, column, timestamps, headers):
        if timestamps is not None or not self._has_headers(headers):
            return None
        return encode_column(column, headers=headers, layout="aggregation_with_headers")

    def bare(self, record):
        return None if record is None else record.aggregation


cdef bint _is_arrow(object column):
    return hasattr(column, "__arrow_c_array__") or hasattr(column, "combine_chunks")


cdef object _listed(object column):
    """Return a column as a sequence of Python values, or None if the column is None."""
    return column.to_pylist() if _is_arrow(column) else column


cdef object _values(SerdeAdapter side, object column):
    """Return a column as a sequence of the values of a serde."""
    from kstore_core import arrow

    return arrow.to_values(side.serde, column) if _is_arrow(column) else column


cdef object _pairs(object headers):
    """Return the headers of one row as pairs or another form that a put accepts."""
    if type(headers) is list and headers and type(headers[0]) is dict:
        return [(header["key"], header["value"]) for header in headers]
    return headers


cdef str _short(object key):
    """Return at most the first 80 characters of a key's repr for a message."""
    text = repr(key)
    return text if len(text) <= 80 else f"{text[:80]}…"


cdef object _only(object carried, object given):
    if given is not None:
        raise TypeError(
            "timestamp= or headers= was passed with a value that already contains them; pass only the "
            "value"
        )
    return carried


def values_of(spec, CurrentRecord current_record):
    """Return the :class:`Values` for the format of ``spec``."""
    return {
        PLAIN.name: PlainValues,
        TIMESTAMPED.name: TimestampedValues,
        TIMESTAMPED_HEADERS.name: HeadersValues,
        VERSIONED.name: VersionedValues,
        VERSIONED_HEADERS.name: VersionedHeadersValues,
        SESSION_HEADERS.name: SessionHeadersValues,
        ORDERED_TIMESTAMPED.name: TimestampedValues,
        ORDERED_TIMESTAMPED_HEADERS.name: HeadersValues,
        ORDERED_SESSION_HEADERS.name: SessionHeadersValues,
    }[spec.format.name](spec, current_record)
