"""read_store and what it plans: versions, histories, changes and metadata as DataFrames."""
