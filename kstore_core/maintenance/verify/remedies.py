"""The remedy for each finding."""

from __future__ import annotations

from kstore_core.hints import command
from kstore_core.maintenance.verify.findings import Severity
from kstore_core.maintenance.verify.protocol import Job, Unit
from kstore_core.maintenance.verify.rows import Fault

__all__ = ["LOG_REMEDY", "remedy"]

LOG_REMEDY = "take the file from a copy of the log, or restore the store from its source"


def remedy(severity: Severity, fault: Fault, unit: Unit, job: Job) -> str:
    """Return the next command."""
    root = job.root
    if severity == "note":
        return ""
    if severity == "locked":
        return f"find the process that holds the lock with: {command('doctor', root)}"
    if unit.does == "log" and severity == "corrupt":
        return LOG_REMEDY
    if fault.what == "forbidden":
        return (
            f"read it as a user with access; list the permissions with: {command('doctor', root)}"
        )
    if fault.what == "failed":
        return "verify it again; if it fails again, report this text"
    if fault.what == "description":
        return "describe the store as it was written, and verify it again; if it was, restore it"
    if fault.what == "two formats":
        return f"finish the upgrade with: {command('upgrade', root, unit.store)}"
    if severity == "corrupt" and job.spec is not None:
        return "check the description of the store; if it is right, restore it from its changelog"
    if severity == "corrupt":
        aside = command("doctor", root, options=f"--set-aside {unit.store}")
        return f"set the store aside and restore it: {aside}"
    return f"look at it with: {command('inspect', root)}"
