"""Versions, histories, changes and metadata of stores as DataFrames."""
