"""Arrow columns read and written through Arrow's C interface, without pyarrow."""
