"""Rows of a versioned store: a latest row, and segment rows of older versions (KIP-889)."""
