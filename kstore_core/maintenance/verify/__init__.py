"""Reading everything that a state directory holds, to see whether it is sound. See docs/verify.md.

What reads is a child process, which damage may end; who asked goes on.
"""

from kstore_core.maintenance.verify.findings import Counts, Finding, Place, Severity, Verified
from kstore_core.maintenance.verify.verifying import Progress, verify

__all__ = ["Counts", "Finding", "Place", "Progress", "Severity", "Verified", "verify"]
