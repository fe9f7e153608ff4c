"""Pictures of stored data: the history of a key, and windows and sessions on a time line.

>>> from kstore_core.plots import plot_history, plot_windowed

They need matplotlib (``pip install 'matplotlib>=3.8'``), which is imported on the first call.
"""

from kstore_core.plots.history import plot_history
from kstore_core.plots.windowed import plot_windowed

__all__ = ["plot_history", "plot_windowed"]
