"""The layers between a shape and its stored table. From the shape down they are metered, cached,
logged and those of plug-ins; docs/layers.md has the reasons.
"""

from kstore_core.layers.cached import Cached
from kstore_core.layers.lru import CacheBudget
from kstore_core.layers.measures import StoreMeasures

__all__ = ["CacheBudget", "Cached", "StoreMeasures"]
