"""Verify a state directory by reading all of it. See docs/verify.md.

A child process reads, because damage may kill the reader.
"""

from kstore_core.maintenance.verify.findings import Counts, Finding, Place, Severity, Verified
from kstore_core.maintenance.verify.verifying import Progress, verify

__all__ = ["Counts", "Finding", "Place", "Progress", "Severity", "Verified", "verify"]
