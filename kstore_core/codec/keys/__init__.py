"""Composite keys of windows, sessions and versions, and the partition of a key."""
