"""The discovery of plug-ins that other distributions announce by entry points."""

from kstore_core.discovery.entry_points import (
    Announced,
    Plugin,
    PluginWarning,
    installed_plugins,
    require,
)

__all__ = ["Announced", "Plugin", "PluginWarning", "installed_plugins", "require"]
