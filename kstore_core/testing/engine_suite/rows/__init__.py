"""Tests of the writes and the reads of rows."""
