"""Functions that read and write the files of RocksDB without the RocksDB library."""
