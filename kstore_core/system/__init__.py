"""Services of the operating system: directories, locks, signals, temporary space."""
