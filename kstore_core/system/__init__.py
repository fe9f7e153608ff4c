"""What kstore asks of the operating system: directories, locks, signals, temporary space."""
