"""stream_into: a streaming changelog into the shards of a store, each record once."""
