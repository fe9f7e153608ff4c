"""The function `with_partition_time`, which adds partition time to the headers of rows."""
