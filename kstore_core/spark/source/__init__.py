"""``format("kstore")``: stores as a source and a sink of Spark."""
