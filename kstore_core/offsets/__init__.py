"""The metadata in a store's offsets namespace: offsets, position, spec, stream time, notes."""
