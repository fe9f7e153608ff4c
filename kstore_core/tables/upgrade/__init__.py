"""Upgrades of a store to a newer format, and a table that reads rows of both formats."""
