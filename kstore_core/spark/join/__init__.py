"""Joins of a stream, a batch or a store with the versions of a partitioned versioned store."""
