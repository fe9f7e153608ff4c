"""The migration of a store to another format, to another engine, or to a versioned store.

See docs/migrate.md.
"""

from kstore_core.maintenance.migrate.converting import Lost
from kstore_core.maintenance.migrate.moving import drop_old, migrate
from kstore_core.maintenance.migrate.results import Migrated, MigrateProgress

__all__ = ["Lost", "MigrateProgress", "Migrated", "drop_old", "migrate"]
