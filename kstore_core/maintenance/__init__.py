"""Maintenance of a state directory: its stores are upgraded, migrated, verified and diagnosed."""
