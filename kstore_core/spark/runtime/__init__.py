"""The Spark session, the Java that runs it, and the engines that its workers have."""
