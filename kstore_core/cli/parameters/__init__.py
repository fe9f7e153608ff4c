"""Parameters of commands: values, options, paths, brokers, ranges of keys and times."""
