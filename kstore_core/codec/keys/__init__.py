"""Functions for composite keys of windows, sessions and versions, and for partitions of keys."""
