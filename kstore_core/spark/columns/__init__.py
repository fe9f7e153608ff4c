"""Arrow columns of Spark's rows as a store's keys, times, headers and shard numbers."""
