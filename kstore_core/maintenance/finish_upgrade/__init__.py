"""The upgrade of a store. It converts all rows that still have an older format.

See docs/upgrade.md.
"""

from kstore_core.maintenance.finish_upgrade.finishing import (
    Progress,
    Upgraded,
    databases,
    kind_of,
    upgrade,
)

__all__ = ["Progress", "Upgraded", "databases", "kind_of", "upgrade"]
