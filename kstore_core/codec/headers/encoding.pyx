# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that encode and decode headers (docs/formats.md, Headers)."""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, uint8_t

from kstore_core.codec.primitives.buffers cimport (
    Scratch, address, bytes_of, close_scratch, copy_bytes, open_scratch,
)
from kstore_core.codec.headers.header cimport write_pair
from kstore_core.codec.headers.headers cimport Headers, lazy_headers, refuse_mapping
from kstore_core.codec.primitives.wire cimport store_varint

from kstore_core.errors import FormatError


cdef bytes collect_headers(
    object headers, Scratch *scratch, const uint8_t **data, Py_ssize_t *size
):
    """Encode headers of any accepted type, and set `data` and `size` to the encoded bytes.

    The encoded bytes are in `scratch` or in the returned object. The caller must keep a reference
    to the returned object while the caller uses the bytes.
    """
    cdef Headers lazy
    cdef bytes source
    size[0] = 0
    if headers is None:
        return None
    if type(headers) is Headers:
        lazy = <Headers>headers
        with cython.critical_section(lazy):
            source = lazy._source
            if source is None and lazy._was_encoded:
                source = keep_encoded(lazy, scratch)
            if source is not None:
                data[0] = address(source) + lazy._start
                size[0] = lazy._size
                return source
            lazy._was_encoded = True
            headers = lazy.locked_items()
    elif type(headers) is not list and type(headers) is not tuple:
        refuse_mapping(headers)
        headers = list(headers)
    write_pairs(headers, scratch)
    data[0] = scratch.data
    size[0] = scratch.size
    return None


cdef bytes keep_encoded(Headers headers, Scratch *scratch):
    """Encode headers, and keep the bytes for the next time. Return the bytes.

    The first encoding does not keep the bytes, because most headers are encoded only once.
    """
    cdef tuple items = None
    while headers._items is not items or items is None:
        items = headers.locked_items()
        scratch.size = 0
        write_pairs(items, scratch)     # may let another thread in, without a GIL
    headers._source = copy_bytes(scratch.data, scratch.size)
    headers._start = 0
    headers._size = scratch.size
    return headers._source


cdef int write_pairs(object pairs, Scratch *scratch) except -1:
    """Write the number of pairs and then the pairs; write nothing if there are no pairs."""
    cdef Py_ssize_t announced = len(pairs)
    cdef Py_ssize_t written = 0
    if announced == 0:
        return 0
    if announced > INT32_MAX:
        raise FormatError(f"headers: {announced} headers exceed the limit of 2**31 - 1")
    scratch.size = store_varint(scratch.data, announced) - scratch.data
    for pair in pairs:
        write_pair(scratch, pair, written)
        written += 1
    if written != announced:
        raise RuntimeError("the list of headers was changed while it was encoded")
    if scratch.size > INT32_MAX:
        raise FormatError(
            f"headers: {scratch.size} bytes exceed the limit of 2**31 - 1"
        )
    return 0


def encode_headers(headers):
    """Encode headers to the bytes that stored values contain.

    Parameters
    ----------
    headers : Headers, iterable of (str, bytes-like or None), or None

    Returns
    -------
    bytes
        The encoded headers; ``b""`` if `headers` is None or empty. If the headers were made from
        bytes and not changed, the result is equal to these bytes.

    Raises
    ------
    TypeError
        If `headers` is a mapping, or if an element is not a pair of these types.
    FormatError
        If a key contains a lone surrogate, or if a key, a value or the encoded headers exceed
        2**31 - 1 bytes.
    """
    cdef Scratch scratch
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    open_scratch(&scratch)
    try:
        source = collect_headers(headers, &scratch, &data, &size)
        if source is not None and size == len(source):
            return source
        return copy_bytes(data, size)
    finally:
        close_scratch(&scratch)


def decode_headers(buf):
    """Return the `Headers` that encoded bytes contain.

    The bytes are decoded when the headers are first accessed. If the bytes are malformed, that
    access raises `FormatError`.

    Parameters
    ----------
    buf : bytes-like or None
        Bytes that `encode_headers` returned. None and ``b""`` mean no headers.

    Returns
    -------
    Headers
        The headers, read-only.
    """
    cdef bytes data = b"" if buf is None else bytes_of(buf)
    return lazy_headers(data, 0, PyBytes_GET_SIZE(data))
