# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The class of a record header (KIP-82), and functions that encode and decode it."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyObject_RichCompare
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport INT32_MAX, int32_t, uint8_t

from kstore_core.codec.primitives.buffers cimport (
    Scratch, View, address, close_view, copy_bytes, open_view, put, reserve,
)
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.headers.key_cache cimport KeyCache, cached_key
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRAILING_BYTES, Fault, Reader, open_reader, read_count, read_header, store_varint,
    walk_headers,
)

from kstore_core.errors import FormatError

cdef extern from "Python.h":
    void *PyUnicode_1BYTE_DATA(object text)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *text)
    object PyUnicode_FromObject(object text)

cdef enum:
    FEW = 64    # the greatest number of headers that are decoded without a check beforehand

cdef KeyCache KEYS


@cython.final
@cython.freelist(256)
cdef class Header:
    """A header of a record: an immutable, hashable pair ``(key, value)``.

    Parameters
    ----------
    key : str
        The key. It may be empty, and several headers of a record may have the same key.
    value : bytes-like or None
        The value. None (null) and ``b""`` are different values. A bytes-like object that is not
        bytes is copied.

    Raises
    ------
    TypeError
        If `key` is not a str, or if `value` is neither bytes-like nor None.
    """

    __match_args__ = ("key", "value")

    def __init__(self, key, value):
        if self.key is not None:
            raise TypeError("a Header cannot be changed; create a new Header")
        self.key = checked_key(key)
        self._value = checked_value(value)

    @property
    def value(self):
        """bytes or None: the value. It is copied out of the record's bytes at the first access."""
        return self.read()

    cdef bytes read(self):
        if self._source is not None:
            with cython.critical_section(self):
                if self._source is not None:
                    self._value = copy_bytes(address(self._source) + self._start, self._size)
                    self._source = None
        return self._value

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return (self.key, self.read())[index]

    def __iter__(self):
        return iter((self.key, self.read()))

    def __richcmp__(self, other, int op):
        if isinstance(other, Header):
            other = ((<Header>other).key, (<Header>other).read())
        elif not isinstance(other, tuple):
            return NotImplemented
        return PyObject_RichCompare((self.key, self.read()), other, op)

    def __hash__(self):
        return hash((self.key, self.read()))

    def __repr__(self):
        return f"Header({self.key!r}, {self.read()!r})"

    def __reduce__(self):
        return Header, (self.key, self.read())


cdef str checked_key(object key):
    if not isinstance(key, str):
        raise TypeError(f"a header key must be a str, not {type(key).__name__}")
    return <str>PyUnicode_FromObject(key)      # a subclass becomes a plain str


cdef bytes checked_value(object value):
    cdef View view
    if value is None or PyBytes_CheckExact(value):
        return <bytes>value
    if isinstance(value, str):
        raise TypeError("a header value must be bytes-like or None, not str; encode it first")
    try:
        open_view(value, &view)
    except TypeError:
        raise TypeError(
            f"a header value must be bytes-like or None, not {type(value).__name__}"
        ) from None
    try:
        return copy_bytes(view.data, view.size)
    finally:
        close_view(&view)


cdef Header as_header(object pair, Py_ssize_t position):
    """Make a Header from a pair. Error messages name `position`, the index of the pair."""
    cdef Header header
    if type(pair) is Header:
        return <Header>pair
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            f"header {position}: a header must be a (key, value) pair, not {pair!r:.80}"
        )
    header = Header.__new__(Header)
    key, value = pair
    header.key = checked_key(key)
    header._value = checked_value(value)
    return header


# ---------------------------------------------------------------- to bytes

cdef const char *utf8(str key, Py_ssize_t *size, Py_ssize_t position) except NULL:
    """Return the UTF-8 bytes of a header's key. The str object owns them."""
    try:
        return PyUnicode_AsUTF8AndSize(key, size)
    except UnicodeEncodeError as error:
        raise FormatError(
            f"header {position}: the key {key!r} has a lone surrogate at index {error.start}, "
            "so it cannot be encoded as UTF-8"
        ) from None


cdef int write_pair(Scratch *scratch, object pair, Py_ssize_t position) except -1:
    """Append the bytes of one header. `pair` is a Header or a (key, value) pair."""
    cdef Header header
    cdef Py_ssize_t key_size = 0
    cdef const char *key_data
    cdef Py_ssize_t value_size = -1
    cdef const uint8_t *value_data = NULL
    cdef uint8_t *here
    cdef str key
    cdef bytes value
    if (
        type(pair) is tuple and len(<tuple>pair) == 2 and type((<tuple>pair)[0]) is str
        and ((<tuple>pair)[1] is None or type((<tuple>pair)[1]) is bytes)
    ):
        key, value = <tuple>pair
    else:
        header = <Header>pair if type(pair) is Header else as_header(pair, position)
        key, value = header.key, header.read()
    if PyUnicode_IS_COMPACT_ASCII(<PyObject *>key):
        key_data = <const char *>PyUnicode_1BYTE_DATA(key)
        key_size = PyUnicode_GET_LENGTH(key)
    else:
        key_data = utf8(key, &key_size, position)
    if value is not None:
        value_data = <const uint8_t *>PyBytes_AS_STRING(value)
        value_size = PyBytes_GET_SIZE(value)
    if key_size > INT32_MAX or value_size > INT32_MAX:
        raise FormatError(
            f"header {position}: a key or value of {max(key_size, value_size)} bytes exceeds "
            "the limit of 2**31 - 1"
        )
    reserve(scratch, key_size + (value_size if value_size > 0 else 0) + 10)
    here = scratch.data + scratch.size
    here = store_varint(here, key_size)
    here = put(here, <const uint8_t *>key_data, key_size)
    here = store_varint(here, value_size)
    if value_size > 0:
        here = put(here, value_data, value_size)
    scratch.size = here - scratch.data
    return 0


# ---------------------------------------------------------------- from bytes

cdef int32_t count_headers(const uint8_t *data, Py_ssize_t size) except -1:
    """Check all headers in `size` bytes, and return their number."""
    cdef Reader reader
    cdef int32_t count = 0
    cdef Fault fault
    open_reader(&reader, data, size)
    fault = walk_headers(&reader, &count)
    if fault != SOUND:
        raise_fault(fault, &reader, "headers")
    return count


cdef tuple parse_headers(bytes source, Py_ssize_t start, Py_ssize_t size):
    """Decode all headers in source[start:start + size].

    If there are many headers, the bytes are checked before memory is allocated. A header copies its
    value at the first read.
    """
    cdef Reader reader
    cdef int32_t count = 0
    cdef int32_t i
    cdef Fault fault
    cdef tuple headers
    cdef Header header
    cdef const uint8_t *key_data = NULL
    cdef const uint8_t *value_data = NULL
    cdef Py_ssize_t key_size = 0
    cdef Py_ssize_t value_size = 0
    if size == 0:
        return ()
    open_reader(&reader, address(source) + start, size)
    fault = read_count(&reader, &count)
    if fault != SOUND:
        raise_fault(fault, &reader, "headers")
    if count > FEW:
        count_headers(address(source) + start, size)
    headers = PyTuple_New(count)
    for i in range(count):
        fault = read_header(&reader, &key_data, &key_size, &value_data, &value_size)
        if fault != SOUND:
            raise_fault(fault, &reader, "headers")
        header = Header.__new__(Header)
        header.key = cached_key(&KEYS, key_data, key_size)
        if value_size >= 0:
            header._source = source
            header._start = value_data - address(source)
            header._size = value_size
        Py_INCREF(header)
        PyTuple_SET_ITEM(headers, i, header)
    if reader.here != reader.end:
        reader.number = reader.end - reader.here
        raise_fault(TRAILING_BYTES, &reader, "headers")
    return headers
