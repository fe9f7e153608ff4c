"""The commands of kstore. Each has its own module, which is imported when the command is run."""
