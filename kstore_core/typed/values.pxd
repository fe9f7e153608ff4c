cimport cython
from libc.stdint cimport int64_t

from kstore_core.layers.current_record cimport CurrentRecord


cdef enum Kind:
    AS_BYTES    # serdes.BYTES
    AS_TEXT     # serdes.UTF8
    BUILT_IN    # another built-in serde, which ignores headers
    CUSTOM      # a user's serde, which takes the headers and may add to them


@cython.final
cdef class SerdeAdapter:
    cdef readonly object serde
    cdef Kind kind
    cdef str _of            # "the value serde 'json' of the store 's'"
    cdef object _encode
    cdef object _decode

    cdef bytes write(self, object value, object key)
    cdef object write_with(self, object value, object headers, object key)
    cdef object read(self, object data, object headers, object key)
    cdef object read_with(self, object data, object headers, object key)
    cdef object _raised(self, object key)
    cdef object failed(self, object error, object key)


cdef class Values:
    cdef SerdeAdapter key
    cdef SerdeAdapter value
    cdef readonly CurrentRecord current_record
    cdef bint _ignores_headers
    cdef str _with_headers          # the factory of a store of this shape that keeps headers
    cdef str _layout                # for decode_rows

    cpdef bytes raw_key(self, object key)
    cpdef tuple row(self, object key, object value, object timestamp, object headers)
    cdef object value_of(self, bytes raw, object key)
    cpdef tuple item(self, bytes raw_key, object raw)
    cdef tuple _serialized(self, object key, object value, object headers)
    cdef int64_t _time(self, object timestamp) except? -1
    cdef object _context_headers(self)
    cdef object _lent_headers(self)


cdef class VersionedValues(Values):
    cpdef object record(self, bytes raw, object timestamp, object valid_to, object key=*)
