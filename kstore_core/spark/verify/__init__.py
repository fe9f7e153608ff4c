"""verify_root: a root's files held against its manifests, and its shards verified."""
