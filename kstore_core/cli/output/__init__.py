"""Output of commands: JSON or columns, progress, errors with an exit code and advice."""
