"""The function `run_on_spark`, which runs a topology of processors as a streaming query."""
