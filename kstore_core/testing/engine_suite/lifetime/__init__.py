"""Tests of a database as a whole: opening, closing, checkpoints, processes, threads."""
