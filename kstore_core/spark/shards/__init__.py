"""The routing of records to shards, and the writing and reading of a shard."""
