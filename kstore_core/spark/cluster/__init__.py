"""check_cluster: a check that the machines of a cluster can run kstore's tasks."""
