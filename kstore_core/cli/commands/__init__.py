"""The commands, a module each; a module is imported when its command is run."""
