# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""Functions that allocate Arrow columns and export them through ``__arrow_c_array__``."""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from kstore_core.codec.arrow.abi cimport ARROW_NULLABLE, ArrowArray, ArrowSchema
from kstore_core.codec.arrow.arena cimport free_buffer, new_buffer


# ---------------------------------------------------------------- releasing

cdef void release_array(ArrowArray *array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_buffers):
        free_buffer(<void *>array.buffers[i])
    free(array.buffers)
    for i in range(array.n_children):
        if array.children[i].release is not NULL:       # NULL if another owner has taken the child
            array.children[i].release(array.children[i])
        free(array.children[i])
    free(array.children)
    array.release = NULL


cdef void release_schema(ArrowSchema *schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i].release is not NULL:
            schema.children[i].release(schema.children[i])
        free(schema.children[i])
    free(schema.children)
    schema.release = NULL


cdef void close_array_capsule(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, b"arrow_array")
    if array.release is not NULL:
        array.release(array)
    free(array)


cdef void close_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, b"arrow_schema")
    if schema.release is not NULL:
        schema.release(schema)
    free(schema)


@cython.final
cdef class Exported:

    def __dealloc__(self):
        if self.array.release is not NULL:
            self.array.release(&self.array)
        if self.schema.release is not NULL:
            self.schema.release(&self.schema)

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowSchema *schema
        cdef ArrowArray *array
        if self.array.release is NULL:
            raise ValueError("this column has already been imported, and can be imported only once")
        schema = <ArrowSchema *>claimed(malloc(sizeof(ArrowSchema)))
        schema[0] = self.schema
        self.schema.release = NULL
        schema_capsule = PyCapsule_New(schema, b"arrow_schema", close_schema_capsule)
        array = <ArrowArray *>claimed(malloc(sizeof(ArrowArray)))
        array[0] = self.array
        self.array.release = NULL
        return schema_capsule, PyCapsule_New(array, b"arrow_array", close_array_capsule)


cdef object imported(Exported column):
    import pyarrow

    return pyarrow.array(column)


# ---------------------------------------------------------------- allocating

cdef void *claimed(void *memory) except NULL:
    if memory is NULL:
        raise MemoryError("cannot allocate memory for an Arrow column")
    return memory


cdef void *allocated(int64_t size) except NULL:
    return claimed(new_buffer(<size_t>max(size, 1)))


cdef uint8_t *all_ones(int64_t length) except NULL:
    cdef int64_t size = max((length + 7) // 8, 1)
    cdef uint8_t *bits = <uint8_t *>allocated(size)
    memset(bits, 0xFF, <size_t>size)
    return bits


cdef int allocate_texts(TextsOut *out, int64_t length, int64_t size, bint wide) except -1:
    """Allocate a column of `length` elements with `size` bytes in total.

    The caller must call `free_texts`, or `texts_array`, which takes over the buffers.
    """
    memset(out, 0, sizeof(TextsOut))
    if size > INT32_MAX and not wide:
        raise OverflowError(
            f"a binary or string column cannot contain {size} bytes; the limit is 2**31 - 1. Pass "
            "the values as large_binary, or pass the column in smaller chunks"
        )
    out.length, out.wide = length, wide
    out.valid = all_ones(length)
    out.offsets = allocated((length + 1) * (8 if wide else 4))
    out.data = <uint8_t *>allocated(size)
    if wide:
        (<int64_t *>out.offsets)[0] = 0
    else:
        (<int32_t *>out.offsets)[0] = 0
    return 0


cdef int allocate_times(TimesOut *out, int64_t length) except -1:
    memset(out, 0, sizeof(TimesOut))
    out.length = length
    out.valid = all_ones(length)
    out.data = <int64_t *>allocated(8 * length)
    return 0


cdef int allocate_lists(
    ListsOut *out, int64_t length, int64_t headers, int64_t key_bytes, int64_t value_bytes
) except -1:
    memset(out, 0, sizeof(ListsOut))
    if headers > INT32_MAX:
        raise OverflowError(
            f"a list column cannot contain {headers} headers; the limit is 2**31 - 1. Pass the "
            "column in smaller chunks"
        )
    out.length = length
    out.valid = all_ones(length)
    out.offsets = <int32_t *>allocated(4 * (length + 1))
    out.offsets[0] = 0
    allocate_texts(&out.keys, headers, key_bytes, False)
    allocate_texts(&out.values, headers, value_bytes, False)
    return 0


cdef void free_texts(TextsOut *out) noexcept:
    free_buffer(out.valid)
    free_buffer(out.offsets)
    free_buffer(out.data)
    memset(out, 0, sizeof(TextsOut))


cdef void free_times(TimesOut *out) noexcept:
    free_buffer(out.valid)
    free_buffer(out.data)
    memset(out, 0, sizeof(TimesOut))


cdef void free_lists(ListsOut *out) noexcept:
    free_buffer(out.valid)
    free_buffer(out.offsets)
    free_texts(&out.keys)
    free_texts(&out.values)
    memset(out, 0, sizeof(ListsOut))


# ---------------------------------------------------------------- finishing

cdef int fill_schema(
    ArrowSchema *schema, const char *format, const char *name, int64_t n_children
) except -1:
    """Make a schema with empty children. `format` and `name` must be literals."""
    cdef int64_t i
    memset(schema, 0, sizeof(ArrowSchema))
    schema.format, schema.name = format, name
    schema.flags = ARROW_NULLABLE
    schema.release = release_schema
    if n_children:
        schema.children = <ArrowSchema **>claimed(calloc(n_children, sizeof(ArrowSchema *)))
        for i in range(n_children):
            schema.children[i] = <ArrowSchema *>claimed(calloc(1, sizeof(ArrowSchema)))
            schema.n_children = i + 1
    return 0


cdef int fill_array(
    ArrowArray *array, int64_t length, int64_t nulls, int64_t n_buffers, int64_t n_children
) except -1:
    """Make an array with empty children, whose buffers the caller must set."""
    cdef int64_t i
    memset(array, 0, sizeof(ArrowArray))
    array.release = release_array
    array.length, array.null_count = length, nulls
    array.buffers = <const void **>claimed(calloc(n_buffers, sizeof(void *)))
    array.n_buffers = n_buffers
    if n_children:
        array.children = <ArrowArray **>claimed(calloc(n_children, sizeof(ArrowArray *)))
        for i in range(n_children):
            array.children[i] = <ArrowArray *>claimed(calloc(1, sizeof(ArrowArray)))
            array.n_children = i + 1
    return 0


cdef int take_bits(ArrowArray *array, uint8_t **bits, int64_t nulls) except -1:
    """Make the array the owner of the validity bits, or free them if no value is null."""
    if nulls:
        array.buffers[0] = bits[0]
    else:
        free_buffer(bits[0])
    bits[0] = NULL
    return 0


cdef int take_texts(ArrowArray *array, TextsOut *out) except -1:
    fill_array(array, out.length, out.nulls, 3, 0)
    take_bits(array, &out.valid, out.nulls)
    array.buffers[1], array.buffers[2] = out.offsets, out.data
    out.offsets = out.data = NULL
    return 0


cdef object texts_array(TextsOut *out, bint strings):
    """Return a pyarrow array of strings or bytes that takes over the buffers of `out`."""
    cdef Exported column = Exported.__new__(Exported)
    cdef const char *format
    if strings:
        format = b"U" if out.wide else b"u"
    else:
        format = b"Z" if out.wide else b"z"
    fill_schema(&column.schema, format, b"", 0)
    take_texts(&column.array, out)
    return imported(column)


cdef object times_array(TimesOut *out):
    """Return a pyarrow array of int64 that takes over the buffers of `out`."""
    cdef Exported column = Exported.__new__(Exported)
    fill_schema(&column.schema, b"l", b"", 0)
    fill_array(&column.array, out.length, out.nulls, 2, 0)
    take_bits(&column.array, &out.valid, out.nulls)
    column.array.buffers[1] = out.data
    out.data = NULL
    return imported(column)


cdef object lists_array(ListsOut *out):
    """Return a pyarrow array of lists of headers that takes over the buffers of `out`."""
    cdef Exported column = Exported.__new__(Exported)
    cdef ArrowSchema *entry
    cdef ArrowArray *entries
    fill_schema(&column.schema, b"+l", b"", 1)
    entry = column.schema.children[0]
    fill_schema(entry, b"+s", b"element", 2)
    fill_schema(entry.children[0], b"u", b"key", 0)
    fill_schema(entry.children[1], b"z", b"value", 0)
    fill_array(&column.array, out.length, out.nulls, 2, 1)
    take_bits(&column.array, &out.valid, out.nulls)
    column.array.buffers[1] = out.offsets
    out.offsets = NULL
    entries = column.array.children[0]
    fill_array(entries, out.keys.length, 0, 1, 2)
    take_texts(entries.children[0], &out.keys)
    take_texts(entries.children[1], &out.values)
    return imported(column)
