"""Values and rows of one format as those of another."""
