"""Tests of rows: batches, scans, lookups, snapshots, namespaces."""
