"""Access to the operating system: directories, locks, signals and temporary directories."""
