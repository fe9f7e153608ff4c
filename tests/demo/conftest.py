"""The Spark session of all tests: the demo would start one of its own, for them all to run in."""

from tests.spark.conftest import spark

__all__ = ["spark"]
