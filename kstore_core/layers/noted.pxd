# cython: language_level=3
from kstore_core.stream_clock cimport Turn
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.tables.versioned cimport VersionedTable


cdef class Notes:
    cdef readonly object current_record
    cdef public long long noted_bytes
    cdef public list _changes
    cdef bint _has_headers

    cpdef object note(self, bytes key, bytes row, context)
    cpdef object note_version(self, bytes key, bytes value, timestamp, record)


cdef class NotedPuts:
    cdef StagedNamespace _rows
    cdef object _put_below
    cdef object _make_room
    cdef Notes _notes
    cdef Turn _turn             # keeps the changes in the order of the writes

    cdef int _begin(self) except -1


cdef class LoggedVersions(VersionedTable):
    cdef object _make_room
    cdef Notes _notes
