"""Where a root lies: a local or mounted file system, or an object store."""
