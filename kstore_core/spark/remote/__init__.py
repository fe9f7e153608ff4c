"""Live shards on object stores: checkpoints, changes, commits, and copies on the workers."""
