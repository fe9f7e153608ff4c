"""The storages that can contain a root: local or mounted file systems, and object stores."""
