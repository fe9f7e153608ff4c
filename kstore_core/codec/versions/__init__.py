"""Functions for rows of a versioned store: latest rows, and segment rows of older versions."""
