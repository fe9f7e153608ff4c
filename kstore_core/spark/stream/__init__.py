"""The function `stream_into`, which writes each record of a stream exactly once into a store."""
