"""with_partition_time: partition time in the headers of rows (KIP-472)."""
