"""`run_on_spark`: a topology of processors as a streaming query of Spark."""
