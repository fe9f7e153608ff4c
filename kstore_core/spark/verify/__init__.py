"""Functions that verify the files and the shards of a root."""
