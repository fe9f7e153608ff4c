# cython: language_level=3
from kstore_core.spark.join.version_runs cimport Runs


cdef class VersionIndex:
    cdef Runs runs
