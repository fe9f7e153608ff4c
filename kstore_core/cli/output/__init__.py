"""The output of commands as JSON or columns, their progress, and their errors."""
