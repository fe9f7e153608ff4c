"""Engines with one bug each, over the memory engine, and the tests that catch it."""

from __future__ import annotations

from tests.testing.planted import living, reading, syncing, writing
from tests.testing.planted.base import PLANTED, PlantedEngine

__all__ = ["PLANTED", "PlantedEngine", "living", "reading", "syncing", "writing"]
