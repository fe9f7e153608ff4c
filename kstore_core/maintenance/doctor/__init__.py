"""What is wrong around the stores of a state directory, and what to do about it: docs/verify.md."""

from kstore_core.maintenance.doctor.examining import examine
from kstore_core.maintenance.doctor.quarantine import SetAside, set_aside

__all__ = ["SetAside", "examine", "set_aside"]
