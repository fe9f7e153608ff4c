"""Stored values: with a timestamp, with headers, and the records that users get.

kstore_core/formats.py names the value formats; the modules here encode and decode their bytes.
"""
