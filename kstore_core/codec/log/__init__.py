"""Records of a changelog: as single objects, as columns, or as rows of a store."""
