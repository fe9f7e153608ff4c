"""The metadata of a store: its offsets, position, spec, stream time and notes."""
