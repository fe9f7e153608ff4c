"""map_state: stateful processing by key, with a store on the worker."""
