"""Values in notebooks and pictures: short, escaped, in a table."""
