"""The live directory of a root, where stream_into and map_state change shards in place."""
