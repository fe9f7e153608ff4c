"""Functions that convert Spark's columns to a store's keys, times, headers and shard numbers."""
