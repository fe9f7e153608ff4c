"""Joins of a stream or a batch with the versions of a partitioned store."""
