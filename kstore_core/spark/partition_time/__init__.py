"""`with_partition_time`: adds partition time to the headers of rows, as in KIP-472."""
