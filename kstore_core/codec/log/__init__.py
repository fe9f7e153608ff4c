"""Changelog records as objects, as columns, or as rows of a store, and their conversions."""
