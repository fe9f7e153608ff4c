# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""Functions that import Arrow columns through ``__arrow_c_array__`` without copying buffers."""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport strcmp, strncmp

from kstore_core.codec.arrow.abi cimport ArrowArray, ArrowSchema

cdef enum:
    MILLISECONDS = 1000


@cython.final
cdef class Column:

    cdef bint is_wide(self) except -1:
        """Return True if this column is large_binary or large_string."""
        return self.schema.format[0] in (b"Z", b"U")

    cdef int as_texts(self, Texts *texts, str what, bint strings) except -1:
        texts_of(self.schema, self.array, texts, what, True, strings)
        return 0

    cdef int as_times(self, Times *times, str what) except -1:
        cdef const char *kind = self.schema.format
        times.multiply = times.divide = 1
        if strcmp(kind, b"l") == 0 or strncmp(kind, b"tsm:", 4) == 0:
            pass
        elif strncmp(kind, b"tss:", 4) == 0:
            times.multiply = MILLISECONDS
        elif strncmp(kind, b"tsu:", 4) == 0:
            times.divide = 1000
        elif strncmp(kind, b"tsn:", 4) == 0:
            times.divide = 1000 * 1000
        else:
            raise TypeError(
                f"{what}: the column must be int64 (milliseconds) or timestamps, but its Arrow "
                f"format is {kind.decode()!r}"
            )
        times.length = self.array.length
        bits_of(self.array, &times.valid)
        times.data = <const int64_t *>self.array.buffers[1]
        if times.data is not NULL:
            times.data += self.array.offset
        return 0

    cdef int as_header_lists(self, HeaderLists *lists) except -1:
        cdef const ArrowSchema *entry
        cdef const ArrowArray *entries
        cdef Py_ssize_t key, value
        lists.absent = strcmp(self.schema.format, b"n") == 0
        lists.length = self.array.length
        if lists.absent:
            return 0
        if strcmp(self.schema.format, b"+l") != 0 and strcmp(self.schema.format, b"+L") != 0:
            raise not_headers(self.schema)
        entry = self.schema.children[0]
        if strcmp(entry.format, b"+s") != 0 or entry.n_children != 2:
            raise not_headers(self.schema)
        key = 0 if strcmp(entry.children[0].name, b"key") == 0 else 1
        value = 1 - key
        if (
            strcmp(entry.children[key].name, b"key") != 0
            or strcmp(entry.children[value].name, b"value") != 0
        ):
            raise not_headers(self.schema)
        bits_of(self.array, &lists.valid)
        offsets_of(self.schema, self.array, &lists.offsets)
        entries = self.array.children[0]
        bits_of(entries, &lists.entry_valid)
        texts_of(
            entry.children[key], entries.children[key],
            &lists.keys, "header keys", False, True,
        )
        texts_of(
            entry.children[value], entries.children[value],
            &lists.values, "header values", True, False,
        )
        # A slice of a struct array does not slice the arrays of its fields.
        shift(&lists.keys, entries.offset)
        shift(&lists.values, entries.offset)
        return 0


cdef Column open_column(object source, str what):
    """Import an Arrow array. The chunks of a chunked array are combined first."""
    cdef Column column = Column.__new__(Column)
    export = getattr(source, "__arrow_c_array__", None)
    if export is None:
        combine = getattr(source, "combine_chunks", None)
        export = None if combine is None else getattr(combine(), "__arrow_c_array__", None)
    if export is None:
        raise TypeError(
            f"{what} must be an Arrow array (an object with __arrow_c_array__), "
            f"not {type(source).__name__}"
        )
    schema_capsule, array_capsule = column._capsules = export()
    column.schema = <const ArrowSchema *>PyCapsule_GetPointer(schema_capsule, b"arrow_schema")
    column.array = <const ArrowArray *>PyCapsule_GetPointer(array_capsule, b"arrow_array")
    if column.schema.dictionary is not NULL:
        raise TypeError(f"{what}: the column is dictionary-encoded; cast it to its value type")
    return column


cdef object not_headers(const ArrowSchema *schema):
    return TypeError(
        "headers: the column must be list<struct<key: string, value: binary>>, but its Arrow "
        f"format is {schema.format.decode()!r}, or its fields have other names or types"
    )


cdef int bits_of(const ArrowArray *array, Bits *bits) except -1:
    bits.offset = array.offset
    bits.data = NULL
    if array.null_count != 0 and array.n_buffers > 0:
        bits.data = <const uint8_t *>array.buffers[0]
    return 0


cdef int offsets_of(const ArrowSchema *schema, const ArrowArray *array, Offsets *offsets) except -1:
    cdef char kind = schema.format[0]
    offsets.narrow = NULL
    offsets.wide = NULL
    if array.length == 0 or array.buffers[1] is NULL:
        return 0
    if kind == b"Z" or kind == b"U" or strcmp(schema.format, b"+L") == 0:
        offsets.wide = <const int64_t *>array.buffers[1] + array.offset
    else:
        offsets.narrow = <const int32_t *>array.buffers[1] + array.offset
    return 0


cdef int texts_of(
    const ArrowSchema *schema, const ArrowArray *array, Texts *texts,
    str what, bint binary, bint strings,
) except -1:
    cdef const char *kind = schema.format
    texts.length = array.length
    texts.all_null = strcmp(kind, b"n") == 0
    if texts.all_null:
        return 0
    if not (
        (binary and (strcmp(kind, b"z") == 0 or strcmp(kind, b"Z") == 0))
        or (strings and (strcmp(kind, b"u") == 0 or strcmp(kind, b"U") == 0))
    ):
        wanted = " or ".join(["binary"] * binary + ["string"] * strings)
        raise TypeError(
            f"{what}: the column must be {wanted} or the large variant of this type, but its Arrow format is "
            f"{kind.decode()!r}"
        )
    bits_of(array, &texts.valid)
    offsets_of(schema, array, &texts.offsets)
    texts.data = <const uint8_t *>array.buffers[2]
    return 0


cdef void shift(Texts *texts, int64_t by) noexcept:
    texts.valid.offset += by
    if texts.offsets.wide is not NULL:
        texts.offsets.wide += by
    elif texts.offsets.narrow is not NULL:
        texts.offsets.narrow += by
