"""Functions that all formats need: for varints, buffers, UTF-8, and errors in bytes."""
