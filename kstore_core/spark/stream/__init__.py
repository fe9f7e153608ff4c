"""`stream_into`: writes a streaming changelog into the shards of a store, each record once."""
