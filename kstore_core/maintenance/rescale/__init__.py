"""The rescale of the task directories of an application, from n tasks to m tasks.

See docs/rescaling.md.
"""

from kstore_core.maintenance.rescale.rescaling import RescaledStore, rescale_tasks

__all__ = ["RescaledStore", "rescale_tasks"]
