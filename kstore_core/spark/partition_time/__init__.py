"""with_partition_time: each row tells how far its partition has come (KIP-472)."""
