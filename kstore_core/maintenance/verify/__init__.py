"""Verify a state directory by reading all of it in a child process: docs/verify.md."""

from kstore_core.maintenance.verify.findings import Counts, Finding, Place, Severity, Verified
from kstore_core.maintenance.verify.verifying import Progress, verify

__all__ = ["Counts", "Finding", "Place", "Progress", "Severity", "Verified", "verify"]
