"""The files of partitioned stores: roots, manifests, and versions."""
