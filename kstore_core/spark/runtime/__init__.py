"""Functions that start a Spark session, find its Java, and check the engines on its workers."""
