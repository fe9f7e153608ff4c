"""The classes of record headers, and functions that encode and decode headers (KIP-82)."""
