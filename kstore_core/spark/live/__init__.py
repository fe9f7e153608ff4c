"""The live directory: the shards that stream_into or map_state writes in place."""
