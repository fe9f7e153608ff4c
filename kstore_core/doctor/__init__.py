"""What is wrong around the stores of a state directory, and what to do about it: docs/verify.md."""

from kstore_core.doctor.aside import SetAside, set_aside
from kstore_core.doctor.examining import examine

__all__ = ["SetAside", "examine", "set_aside"]
