"""The upgrade of all rows of a store that still have an older format; see docs/upgrade.md."""

from kstore_core.maintenance.finish_upgrade.finishing import (
    Progress,
    Upgraded,
    databases,
    kind_of,
    upgrade,
)

__all__ = ["Progress", "Upgraded", "databases", "kind_of", "upgrade"]
