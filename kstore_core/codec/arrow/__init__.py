"""Functions that read and write Arrow columns through Arrow's C data interface."""
