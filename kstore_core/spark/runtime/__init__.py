"""Functions that start a Spark session, find a Java for it, and check its workers' engines."""
