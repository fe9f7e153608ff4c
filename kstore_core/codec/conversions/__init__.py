"""Functions that convert values and rows to another format."""
