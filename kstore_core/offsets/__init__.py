"""The entries beside a store's rows: offsets, position, spec, stream time, notes."""
