"""Layers: what stands between a shape and its table. From the shape down they are metered, cached,
logged, then what plug-ins put there, then the stored table; docs/layers.md tells why.
"""

from kstore_core.layers.cached import Cached
from kstore_core.layers.lru import CacheBudget
from kstore_core.layers.measures import StoreMeasures

__all__ = ["CacheBudget", "Cached", "StoreMeasures"]
