from kstore_core.layers.current_record cimport CurrentRecord


cdef class Latency:
    cdef long long _begun
    cdef long long _sums[2]
    cdef long long _counts[2]
    cdef long long _most[2]
    cdef long long _least[2]

    cdef int _turn(self, long long now) except -1
    cdef int add(self, long long amount, long long now) except -1


cdef class Operation:
    cdef readonly unsigned long long count
    cdef readonly Latency latency
    cdef long long _every
    cdef long long _left


cdef class Call:
    cdef Operation operation
    cdef object function


cdef class Lateness:
    cdef readonly Latency latency
    cdef CurrentRecord _current_record


cdef class OpenIterators:
    cdef readonly Latency duration
    cdef dict _since


cdef class OpenIterator:
    cdef OpenIterators _all
    cdef Operation _operation
    cdef long long _begun
