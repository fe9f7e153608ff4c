"""The commands of kstore. The module of a command is imported when the command is run."""
