"""`map_state`: stateful processing of rows by key, with a store on each worker."""
