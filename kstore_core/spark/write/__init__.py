"""write_store: a changelog DataFrame as a new version of a partitioned store."""
