"""verify_root: verification of a root's files and shards."""
