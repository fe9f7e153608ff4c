"""The check that the machines of a Spark cluster can run kstore's tasks."""
