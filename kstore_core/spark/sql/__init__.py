"""Stores in Spark SQL: temporary views, and a function that looks up versions."""
