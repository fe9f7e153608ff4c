"""Tests of what is in a database: batches, scans, lookups, snapshots, namespaces."""
