"""One shard: the rows that belong to it, written, read and applied."""
