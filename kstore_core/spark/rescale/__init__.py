"""Functions that move the rows of a partitioned store to another number of shards."""
