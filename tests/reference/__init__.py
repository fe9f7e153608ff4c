"""The formats once more, in plain Python: slow, short, and written from docs/formats.md alone."""
