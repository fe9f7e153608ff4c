"""The live directory: shards that a stream or a map_state writes in place."""
