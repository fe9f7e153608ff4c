"""The functions that use the operating system for directories, locks and signals."""
