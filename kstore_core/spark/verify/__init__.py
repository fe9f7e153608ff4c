"""The verification of the files and the shards of a root."""
