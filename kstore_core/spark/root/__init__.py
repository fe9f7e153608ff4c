"""A partitioned store: its root directory, manifests, versions and files."""
