"""Partitioned stores: root directories, manifests, versions and files."""
