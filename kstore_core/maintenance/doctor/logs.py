"""The checks of the ends of changelogs in files, and of the bytes that writers cut off a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from kstore_core.changelog.files.tail import cuts
from kstore_core.maintenance.doctor.environment import at, remove
from kstore_core.maintenance.verify import Finding
from kstore_core.maintenance.verify.logs import check_end, log_of
from kstore_core.maintenance.verify.protocol import Survey
from kstore_core.maintenance.verify.remedies import LOG_REMEDY

__all__ = ["in_logs"]


def in_logs(root: Path, logs: Path, stores: Mapping[str, Survey]) -> Iterator[Finding]:
    """Report logs that lack records of their stores, and bytes that were cut off a log.

    The check reads only the last file of each log.

    Parameters
    ----------
    root : Path
        The state directory.
    logs : Path
        The directory of the changelogs, or the directory of a single log.
    stores : mapping
        The kind and the metadata of each store, by the store's name.
    """
    for store, survey in stores.items():
        log = log_of(logs, store, root)
        if log is None:
            continue
        try:
            for severity, fault in check_end(log, survey.record.known_offsets):
                remedy = LOG_REMEDY if severity == "corrupt" else ""
                yield at(severity, fault.what, fault.why, remedy, store)
        except PermissionError:
            raise
        except OSError as error:
            yield at("finding", "unreadable", str(error), LOG_REMEDY, store)
        if left := cuts(log):
            size = 0
            for cut in left:
                with suppress(FileNotFoundError):  # a writer has renamed it, or it was deleted
                    size += cut.stat().st_size
            why = (
                f"{size} bytes of an interrupted write were cut off {log} and moved to "
                f"{', '.join(cut.name for cut in left)}; no reader uses them"
            )
            remedy = f"when you no longer need these files, delete them with: {remove(*left)}"
            yield at("note", "leftover", why, remedy, store)
