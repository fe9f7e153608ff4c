"""The changelogs of a state directory's stores: which is whose, and who closes it."""

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
    """What was given as the ``changelog`` of a state directory, and the logs opened from it.

    Parameters
    ----------
    given : path-like, Changelogs, Changelog or None
        As for :func:`~kstore_core.state.opening`.

    Attributes
    ----------
    opened : list of Changelog
        Those that are to be closed with the state directory; a log that was given as such is its
        owner's.

    Raises
    ------
    TypeError
        It is none of these.
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
                f"{given!r} is no directory; pass KafkaChangelogs of kstore_core.changelog for "
                "changelogs in Kafka"
            )
        if isinstance(given, (str, os.PathLike)):
            self._many = ChangelogDirectory(given)
        elif hasattr(given, "changelog_of"):
            self._many = cast("Changelogs", given)
        elif hasattr(given, "extend") and hasattr(given, "high_watermark"):
            check_changelog(given)
            self._one = cast("Changelog", given)
        elif given is not None:
            raise TypeError(f"a changelog is a directory, Changelogs or a Changelog, not {given!r}")

    def open(
        self, spec: StoreSpec, task: Path, durability: Durability, others: Iterable[str]
    ) -> Changelog | None:
        """The changelog of a store that is being opened; None where its writes go to none.

        Parameters
        ----------
        others : iterable of str
            The stores that are open already.

        Raises
        ------
        SpecError
            There is one changelog, and it is another store's.
        """
        if self._many is not None:
            log = self._many.changelog_of(spec, task, durability)
            self.opened.append(log)
            return log
        if self._one is not None and (other := next(iter(others), None)) is not None:
            raise SpecError(
                f"the changelog {self._one.topic}-{self._one.partition} is that of the store "
                f"{other!r}; open the state directory with a directory of changelogs, in which "
                f"{spec.name!r} has one of its own"
            )
        return self._one

    def let_go(self, log: Changelog | None) -> None:
        """Close a log that was opened for a store which then was not."""
        if log in self.opened:
            self.opened.remove(log)
            log.close()
