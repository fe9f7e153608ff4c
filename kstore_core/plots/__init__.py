"""Pictures of what stores hold: the history of a key, and windows and sessions on a time line.

>>> from kstore_core.plots import plot_history, plot_windowed

They draw with matplotlib (``pip install 'matplotlib>=3.8'``), imported when something is drawn.
"""

from kstore_core.plots.history import plot_history
from kstore_core.plots.windowed import plot_windowed

__all__ = ["plot_history", "plot_windowed"]
