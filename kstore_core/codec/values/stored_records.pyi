# What this module offers is for Cython callers: see stored_records.pxd.
