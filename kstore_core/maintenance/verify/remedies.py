"""The next step that a user should take after a finding."""

from __future__ import annotations

from kstore_core.hints import command
from kstore_core.maintenance.verify.findings import Severity
from kstore_core.maintenance.verify.protocol import Job, Unit
from kstore_core.maintenance.verify.rows import Fault

__all__ = ["LOG_REMEDY", "remedy"]

LOG_REMEDY = "put the file back from a copy of the log, or rebuild the store from its input"


def remedy(severity: Severity, fault: Fault, unit: Unit, job: Job) -> str:
    """Return the next step after a finding, with a command if one helps; empty for a note."""
    root = job.root
    if severity == "note":
        return ""
    if severity == "locked":
        return f"find the process that holds the lock with: {command('doctor', root)}"
    if unit.does == "log" and severity == "corrupt":
        return LOG_REMEDY
    if fault.what == "forbidden":
        return (
            "verify the store as a user who may read it; list the permissions with: "
            f"{command('doctor', root)}"
        )
    if fault.what == "failed":
        return "verify the store again; if the check fails again, report this text as a bug"
    if fault.what == "description":
        return (
            "describe the store with the options with which it was written, and verify it again; "
            "if the description is right, restore the store"
        )
    if fault.what == "two formats":
        return f"finish the upgrade with: {command('upgrade', root, unit.store)}"
    if severity == "corrupt" and job.spec is not None:
        return (
            "check the description of the store; if it is right, restore the store from its "
            "changelog"
        )
    if severity == "corrupt":
        aside = command("doctor", root, options=f"--set-aside {unit.store}")
        return f"set the store aside and restore it: {aside}"
    return f"inspect the store with: {command('inspect', root)}"
