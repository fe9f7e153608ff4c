"""The changelogs that a state directory opens and closes for its stores."""

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
    """The changelogs of a state directory, as the argument ``changelog`` defines them.

    Parameters
    ----------
    given : path-like, Changelogs, Changelog or None
        The ``changelog`` of :func:`kstore_core.open_state`.

    Attributes
    ----------
    opened : list of Changelog
        The logs that must be closed with the state directory. A log that the user passed as
        ``given`` is not in this list, because the user must close it.

    Raises
    ------
    TypeError
        ``given`` has another type.
    SpecError
        ``given`` is a log whose partition is negative.
    """

    def __init__(
        self, given: str | os.PathLike[str] | Changelogs | Changelog | None = None
    ) -> None:
        self.opened: list[Changelog] = []
        self._one: Changelog | None = None
        self._many: Changelogs | None = None
        if isinstance(given, str) and given.startswith("kafka:"):
            raise TypeError(
                f"changelog={given!r} does not name a directory. To write the changelogs to Kafka, "
                "pass a kstore_core.changelog.KafkaChangelogs"
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
                "changelog must be the path of a directory, a Changelogs object or a Changelog "
                f"object, not {given!r}"
            )

    def open(
        self, spec: StoreSpec, task: Path, durability: Durability, others: Iterable[str]
    ) -> Changelog | None:
        """Open the changelog of a store, or return None if the directory has no changelogs.

        Parameters
        ----------
        others : iterable of str
            The names of the stores that are already open.

        Raises
        ------
        SpecError
            The user passed a single changelog, and another store already uses it.
        """
        if self._many is not None:
            log = self._many.changelog_of(spec, task, durability)
            self.opened.append(log)
            return log
        if self._one is not None and (other := next(iter(others), None)) is not None:
            raise SpecError(
                f"the changelog {self._one.topic}-{self._one.partition} already belongs to the "
                f"store {other!r}, so the store {spec.name!r} cannot use it. To open both stores, "
                "pass the path of a directory for logs instead of one changelog: "
                "open_state(..., changelog='logs'). kstore then makes one changelog for each store"
            )
        return self._one

    def close(self, log: Changelog | None) -> None:
        """Close the log of a store that could not be opened."""
        if log in self.opened:
            self.opened.remove(log)
            log.close()
