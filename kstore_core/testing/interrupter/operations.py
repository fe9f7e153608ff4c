"""The calls that the interrupter interrupts, with their preparations and checks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kstore_core.changelog import FileChangelog
from kstore_core.engine import Capabilities
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
from kstore_core.maintenance.migrate import migrate
from kstore_core.testing.interrupter.trial import Trial
from kstore_core.testing.killer.combinations import Combination
from kstore_core.testing.killer.subject import Subject
from kstore_core.testing.kinds import EDGES

__all__ = ["OPERATIONS", "Operation", "older_of", "operations_of"]

_LATER = 100
"""The number of commits after which every segment has expired. Two commits advance time by 1 ms."""


@dataclass(frozen=True)
class Operation:
    """A call that can be interrupted, with its preparation and its check.

    Attributes
    ----------
    fits : callable
        A function that returns True if a combination and an engine's capabilities allow the call.
    begin : callable
        The function that prepares the state directory.
    call : callable
        The function that is interrupted. It must succeed when it is called again.
    check : callable
        A function that makes additional checks after the call has returned.
    new : bool
        True if there is no state directory before the call.
    older : bool
        True if the stores are made in an older format.
    """

    fits: Callable[[Combination, Capabilities], bool]
    begin: Callable[[Trial], object]
    call: Callable[[Trial], object]
    check: Callable[[Trial], object] = lambda trial: None
    new: bool = False
    older: bool = False


def _anything(chosen: Combination, able: Capabilities) -> bool:
    return True


def _is_logged(chosen: Combination, able: Capabilities) -> bool:
    return chosen.logged and chosen.staging == "staged"


def _is_restored(chosen: Combination, able: Capabilities) -> bool:
    """Return True if open stores of a combination can be restored."""
    return _is_logged(chosen, able) and not any(subject.duplicates for subject in chosen.subjects)


def _is_copied(chosen: Combination, able: Capabilities) -> bool:
    return able.persistent and able.checkpoint


def _is_upgraded(chosen: Combination, able: Capabilities) -> bool:
    """Return True if all stores of a combination can be upgraded from an older format."""
    return (
        able.persistent
        and (chosen.layers, chosen.staging) == ("bare", "staged")
        and all(older_of(subject) is not None for subject in chosen.subjects)
    )


def older_of(subject: Subject) -> Subject | None:
    """Return the store in the oldest format that can be upgraded to its format, or None."""
    older = [edge.older for edge in EDGES if edge.newer == subject.kind]
    return replace(subject, kind=older[0]) if older else None


# Preparations.


def _nothing(trial: Trial) -> None:
    """Do nothing, because the call needs a closed directory."""


def _open(trial: Trial) -> None:
    trial.open()


def _stage(trial: Trial) -> None:
    trial.stage()


def _stage_later(trial: Trial) -> None:
    trial.number += _LATER
    trial.stage()


def _lose(trial: Trial) -> None:
    shutil.rmtree(trial.home, ignore_errors=True)


def _lose_and_open(trial: Trial) -> None:
    """Remove the stores, and open the directory without a restore.

    The next operation, which is interrupted, then restores the stores.
    """
    _lose(trial)
    trial.chosen = replace(trial.chosen, layers="bare")
    trial.open()


# The calls.


def _make(trial: Trial) -> None:
    trial.stage()
    trial.commit()


def _commit(trial: Trial) -> None:
    trial.commit()


def _close(trial: Trial) -> None:
    trial.close()


def _logs(trial: Trial) -> list[tuple[Path, str]]:
    """Return the directory of the changelogs and the topic, for each store."""
    names = [subject.name for subject in trial.subjects]
    return [(trial.root / "logs", f"killed-{name}-changelog") for name in names]


def _restore(trial: Trial) -> None:
    state = trial.open()
    for (place, topic), (_, store) in zip(_logs(trial), trial.stores, strict=True):
        with FileChangelog(place, topic, read_only=True) as log:
            state.restore(store.spec, log)
            assert store.offsets()[topic, 0] == log.high_watermark - 1


def _compact(trial: Trial) -> None:
    for place, topic in _logs(trial):
        with FileChangelog(place, topic) as log:
            log.roll()
            log.compact()


def _checkpoint(trial: Trial) -> None:
    copy = trial.root / "copy" / "0_0"
    if not copy.exists():
        trial.open().checkpoint(copy)


def _upgrade(trial: Trial) -> None:
    for subject in trial.subjects:
        upgrade(trial.home, subject.name, to=subject.kind.format, engine=trial.engine, batch_rows=9)


def _migrate(trial: Trial) -> None:
    for subject in trial.subjects:
        migrate(trial.home, subject.name, to=subject.kind.format, drop_old=True)


# Additional checks.


def _is_a_copy(trial: Trial) -> None:
    copy = replace(trial, root=trial.root / "copy", state=None)
    copy.chosen = replace(copy.chosen, layers="bare")
    assert copy.contents() == trial.contents()
    copy.close()


def _replay(trial: Trial) -> None:
    """Remove the stores, and open the directory, which restores them from their changelogs."""
    _lose(trial)
    trial.open()


OPERATIONS: dict[str, Operation] = {
    "open": Operation(_anything, _nothing, _open),
    "make": Operation(_anything, _nothing, _make, new=True),
    "commit": Operation(_anything, _stage, _commit),
    "expire": Operation(_anything, _stage_later, _commit),
    "spill": Operation(lambda chosen, able: chosen.staging == "spilled", _open, _stage),
    "close": Operation(_anything, _make, _close),
    "reload": Operation(_is_logged, _lose, _open),
    "restore": Operation(_is_restored, _lose_and_open, _restore),
    "compact": Operation(_is_logged, _nothing, _compact, _replay),
    "checkpoint": Operation(_is_copied, _open, _checkpoint, _is_a_copy),
    "upgrade": Operation(_is_upgraded, _nothing, _upgrade, older=True),
    "migrate": Operation(_is_upgraded, _nothing, _migrate, older=True),
}
"""The calls by name. ``make`` is the first commit of a new directory. ``expire`` is a commit that
drops segments. ``reload`` is an open that restores everything from the changelog."""


def operations_of(chosen: Combination, able: Capabilities) -> list[str]:
    """Return the names of the calls that a combination and an engine's capabilities allow."""
    return [name for name, one in OPERATIONS.items() if one.fits(chosen, able)]
