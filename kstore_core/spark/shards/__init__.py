"""Code that routes records to shards, and writes and reads a shard."""
