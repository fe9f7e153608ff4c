"""What commands take: values, options, paths, brokers, ranges of keys and times."""
