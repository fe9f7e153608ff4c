"""Functions that draw stored data: the history of a key, and windows or sessions on a time line.

>>> from kstore_core.plots import plot_history, plot_windowed

The functions need matplotlib (``pip install 'matplotlib>=3.8'``), which the first call imports.
"""

from kstore_core.plots.history import plot_history
from kstore_core.plots.windowed import plot_windowed

__all__ = ["plot_history", "plot_windowed"]
