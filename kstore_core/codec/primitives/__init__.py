"""The parts of every format: varints, lengths, buffers, UTF-8, and the errors of bytes."""
