"""Plug-ins of other distributions: found by entry point, loaded and checked one by one."""

from kstore_core.discovery.entry_points import (
    Announced,
    Plugin,
    PluginWarning,
    installed_plugins,
    require,
)

__all__ = ["Announced", "Plugin", "PluginWarning", "installed_plugins", "require"]
