"""The live directory of a root, in which stream_into and map_state change shards in place."""
