"""Stored values: with a timestamp, with headers, and the records that users get."""
