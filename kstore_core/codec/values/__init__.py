"""Functions that encode and decode stored values, and the classes of the records in them.

A stored value may contain a timestamp and headers. kstore_core/formats.py lists the formats.
"""
