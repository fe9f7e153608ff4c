"""The changelogs of a state directory's stores: each store's log, opened and closed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from kstore_core.changelog import Changelog, ChangelogDirectory, Changelogs
from kstore_core.changelog.protocol import check_changelog
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.spec import StoreSpec

__all__ = ["StateLogs"]


class StateLogs:
    """The ``changelog`` argument of a state directory, and the logs opened from it.

    Parameters
    ----------
    given : path-like, Changelogs, Changelog or None
        The ``changelog`` of :func:`kstore_core.open_state`.

    Attributes
    ----------
    opened : list of Changelog
        The logs to close with the state directory. The owner of a given log closes it.

    Raises
    ------
    TypeError
        ``given`` has another type.
    SpecError
        It is a log of a negative partition.
    """

    def __init__(
        self, given: str | os.PathLike[str] | Changelogs | Changelog | None = None
    ) -> None:
        self.opened: list[Changelog] = []
        self._one: Changelog | None = None
        self._many: Changelogs | None = None
        if isinstance(given, str) and given.startswith("kafka:"):
            raise TypeError(
                f"{given!r} is not a directory; to log to Kafka, pass a KafkaChangelogs of "
                "kstore_core.changelog"
            )
        if isinstance(given, (str, os.PathLike)):
            self._many = ChangelogDirectory(given)
        elif hasattr(given, "changelog_of"):
            self._many = cast("Changelogs", given)
        elif hasattr(given, "extend") and hasattr(given, "high_watermark"):
            check_changelog(given)
            self._one = cast("Changelog", given)
        elif given is not None:
            raise TypeError(
                f"changelog must be a directory, a Changelogs or a Changelog, not {given!r}"
            )

    def open(
        self, spec: StoreSpec, task: Path, durability: Durability, others: Iterable[str]
    ) -> Changelog | None:
        """Open the changelog of a store; None without one.

        Parameters
        ----------
        others : iterable of str
            The stores that are open already.

        Raises
        ------
        SpecError
            There is one changelog, and it belongs to another store.
        """
        if self._many is not None:
            log = self._many.changelog_of(spec, task, durability)
            self.opened.append(log)
            return log
        if self._one is not None and (other := next(iter(others), None)) is not None:
            raise SpecError(
                f"the changelog {self._one.topic}-{self._one.partition} already belongs to the "
                f"store "
                f"{other!r}, so the store {spec.name!r} cannot use it; open the state directory "
                f"with "
                "a directory of changelogs, which has one changelog for each store"
            )
        return self._one

    def close(self, log: Changelog | None) -> None:
        """Close a log whose store could not be opened."""
        if log in self.opened:
            self.opened.remove(log)
            log.close()
