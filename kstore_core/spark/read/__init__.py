"""Reads of partitioned stores, their changes and their metadata as DataFrames."""
