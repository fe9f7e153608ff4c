"""The types and options of command-line parameters, such as times, keys, paths and brokers."""
