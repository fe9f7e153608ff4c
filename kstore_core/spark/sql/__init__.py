"""Spark SQL: functions that register views of stores, and a function that looks up versions."""
