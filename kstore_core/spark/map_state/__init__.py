"""`map_state`: stateful processing of rows by key, with stores on the workers."""
