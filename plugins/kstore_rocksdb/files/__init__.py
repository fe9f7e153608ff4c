"""RocksDB's own files, read and written by kstore without RocksDB."""
