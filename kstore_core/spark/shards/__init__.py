"""The rows of one shard: routing, writing, reading and applying."""
