"""Plug-ins of other distributions: found by entry point, loaded and checked one by one."""

from kstore_core.discovery.entry_points import (
    NOT_A_PLUGINS,
    Announced,
    Plugin,
    PluginWarning,
    advice,
    announced,
    claims,
    installed_plugins,
    load_hooks,
    reason,
    require,
    usable_plugins,
    wrap_table,
)

__all__ = [
    "NOT_A_PLUGINS",
    "Announced",
    "Plugin",
    "PluginWarning",
    "advice",
    "announced",
    "claims",
    "installed_plugins",
    "load_hooks",
    "reason",
    "require",
    "usable_plugins",
    "wrap_table",
]
