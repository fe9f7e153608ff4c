"""Move every row of an older format to the newer one; see docs/upgrade.md."""

from kstore_core.maintenance.finish_upgrade.finishing import (
    Progress,
    Upgraded,
    databases,
    kind_of,
    upgrade,
)

__all__ = ["Progress", "Upgraded", "databases", "kind_of", "upgrade"]
