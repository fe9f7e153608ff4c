"""check_cluster: whether the machines of a cluster have what kstore's tasks need."""
