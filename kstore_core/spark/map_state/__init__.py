"""map_state: stateful processing by key, with a kstore store in the worker."""
