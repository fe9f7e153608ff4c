"""The diagnosis of a state directory, with a remedy for each finding; see docs/verify.md."""

from kstore_core.maintenance.doctor.examining import examine
from kstore_core.maintenance.doctor.quarantine import SetAside, set_aside

__all__ = ["SetAside", "examine", "set_aside"]
