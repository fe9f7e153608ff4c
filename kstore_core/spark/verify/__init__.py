"""verify_root: a root's files compared with its manifests, and its shards verified."""
