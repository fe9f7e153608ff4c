"""What notebooks and error messages show of values: short, escaped, in a table."""
