"""Record headers: the pair, the list, and their bytes (KIP-82)."""
