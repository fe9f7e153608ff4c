"""RocksDB's own files, read by kstore: checked before a database opens, copied to read it."""
