"""The write of a changelog DataFrame as a new version of a partitioned store."""
