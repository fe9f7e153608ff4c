"""The layers, which wrap the table of a store and add metrics, a cache and a changelog.

The outermost layer adds metrics. Below it are the cache, the changelog and the layers of plug-ins,
in this order. docs/layers.md gives the reasons.
"""

from kstore_core.layers.cached import Cached
from kstore_core.layers.lru import CacheBudget
from kstore_core.layers.measures import StoreMeasures

__all__ = ["CacheBudget", "Cached", "StoreMeasures"]
