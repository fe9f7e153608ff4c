"""Moving a store into another format, another engine or its own history; see docs/migrate.md."""

from kstore_core.maintenance.migrate.converting import Lost
from kstore_core.maintenance.migrate.moving import drop_old, migrate
from kstore_core.maintenance.migrate.results import Migrated, MigrateProgress

__all__ = ["Lost", "MigrateProgress", "Migrated", "drop_old", "migrate"]
