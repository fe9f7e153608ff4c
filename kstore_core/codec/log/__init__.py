"""Records of a changelog: one by one, as columns, as rows of a store."""
