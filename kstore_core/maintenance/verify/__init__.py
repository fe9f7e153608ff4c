"""The verification of a state directory. A child process reads the whole directory.

See docs/verify.md.
"""

from kstore_core.maintenance.verify.findings import Counts, Finding, Place, Severity, Verified
from kstore_core.maintenance.verify.verifying import Progress, verify

__all__ = ["Counts", "Finding", "Place", "Progress", "Severity", "Verified", "verify"]
