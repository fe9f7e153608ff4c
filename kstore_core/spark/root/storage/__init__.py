"""The storage of a root: a local or mounted file system, or an object store."""
