"""Upgrades of a store's format: which formats a database holds, and a table over two of them."""
