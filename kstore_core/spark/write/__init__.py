"""Functions that write a DataFrame with a changelog as a new version of a partitioned store."""
