"""The layers, which add metrics, a cache and a changelog to a store.

Between a store and its table are the cache, the changelog and the layers of plug-ins, in this
order. Metrics wrap the methods of the store itself. docs/layers.md gives the reasons.
"""

from kstore_core.layers.cached import Cached
from kstore_core.layers.lru import CacheBudget
from kstore_core.layers.measures import StoreMeasures

__all__ = ["CacheBudget", "Cached", "StoreMeasures"]
