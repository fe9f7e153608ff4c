"""The check of the stores that killed writers have left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kstore_core.engine import Engine
from kstore_core.state import open_state
from kstore_core.testing.explaining import same
from kstore_core.testing.killer.combinations import Combination
from kstore_core.testing.killer.subject import Contents, Subject
from kstore_core.testing.killer.writer import INPUT, stage

__all__ = ["Expected", "Span"]


class Span(NamedTuple):
    """The range of commits that the killed writers reported.

    Attributes
    ----------
    returned : int
        The highest number of a commit that returned in any writer.
    begun : int
        The highest number of a commit that any writer began.
    """

    returned: int
    begun: int


class Expected:
    """The models of a combination's stores, as of the last check.

    Parameters
    ----------
    chosen : Combination
    seed : int
        The seed of the writers.

    Attributes
    ----------
    commit : int
        The number of the last commit that all models contain.
    """

    def __init__(self, chosen: Combination, seed: int) -> None:
        self.commit = 0
        self._chosen = chosen
        self._seed = seed
        self._models = {subject: subject.model() for subject in chosen.subjects}

    def check(self, engine: Engine, root: Path, span: Span) -> None:
        """Check the stores, repeat the commits after their offsets, and check the stores again.

        Raises
        ------
        AssertionError
            A store does not have the contents that the guarantees require.
        """
        state = open_state(root / "0_0", engine=engine, **self._chosen.arguments(root))
        try:
            stores = list(zip(self._chosen.subjects, self._chosen.open(state), strict=True))
            offsets = [self._check(subject, store, engine, span) for subject, store in stores]
            assert state.offsets().get(INPUT, 0) == min(offsets), (
                "the offset of the directory is the least offset of its stores"
            )
            for number in range(min(offsets) + 1, span.begun + 1):
                stage(state, stores, self._seed, number)
                state.commit({INPUT: number})
                for subject, model in self._models.items():
                    self._note(subject, model, [number])
            for subject, store in stores:
                self._same(subject, store, self._models[subject], "after a replay")
                subject.forget(self._models[subject])
            self.commit = span.begun
        finally:
            state.close()

    def _note(self, subject: Subject, model: Any, numbers: Iterable[int]) -> None:
        for number in numbers:
            for change in subject.changes(self._seed, number):
                subject.note(model, change)

    def _check(self, subject: Subject, store: Any, engine: Engine, span: Span) -> int:
        """Check one store, and return its offset, which is the number of a commit."""
        able = engine.capabilities
        least = self.commit if self._chosen.loses_tails(able) else span.returned
        offset: int = store.offsets().get(INPUT, 0)
        assert least <= offset <= span.begun, (
            f"the offset of {subject.name!r} is {offset}, but must be from {least}, the last "
            f"durable commit, to {span.begun}, the last commit that was begun"
        )
        position = store.position.get(INPUT[0], {}).get(INPUT[1], 0)
        # Records that were restored from the changelog are in the position, not in the offset.
        latest = span.begun if self._chosen.logged else offset
        assert offset <= position <= latest, (
            f"the position is {position}, but must be from {offset} to {latest}"
        )
        base = self._models[subject]
        model = base.copy()
        self._note(subject, model, range(self.commit + 1, offset + 1))
        self._models[subject] = model
        if self._chosen.is_atomic(subject, able):
            self._same(subject, store, model, f"at commit {offset}")
        else:
            contained = max(offset, span.returned) if self._chosen.logged else offset
            self._contains(subject, store, model, range(offset + 1, contained + 1), span.begun)
        if subject.duplicates:
            subject.adopt(model, subject.found(store), store.stream_time)
        return offset

    def _same(self, subject: Subject, store: Any, model: Any, what: str) -> None:
        found, there = subject.found(store), subject.wanted(model)
        same(
            dict(sorted(found.items())),
            dict(sorted(there.items())),
            f"the contents of {subject.name!r} {what}",
        )
        wanted = getattr(model, "observed", None)
        assert store.stream_time == wanted, (
            f"stream time {what} must be {wanted}, not {store.stream_time}"
        )

    def _contains(self, subject: Subject, store: Any, model: Any, more: range, begun: int) -> None:
        """Check that a store has all rows of a model, and otherwise only rows of later commits.

        Parameters
        ----------
        model
            The model of the store after the commit whose number is the store's offset.
        more : range
            The numbers of the later commits that the store must also contain.
        begun : int
            The number of the last commit that the store may contain completely or in part.
        """
        later = range(more.stop, begun + 1)
        upper = model.copy()
        at_offset = _loose(subject, subject.wanted(upper))
        self._note(subject, upper, more)
        least = _loose(subject, subject.wanted(upper))
        self._note(subject, upper, later)
        most = _loose(subject, subject.wanted(upper))
        passed, written = self._written(subject, more), self._written(subject, later)
        found = _loose(subject, subject.found(store))
        for place in least.keys() & most.keys():
            is_there = _holds(subject, found.get(place), least[place], passed[place])
            if place in written:  # a later commit may have changed or deleted the item
                is_there = place in found or None in written[place]
            assert is_there, (
                f"{subject.name!r} has lost {least[place]} at {place}, and contains "
                f"{found.get(place)}"
            )
        for place, item in found.items():
            known = [at_offset.get(place), least.get(place), *passed[place], *written[place]]
            is_known = item in known
            if subject.duplicates:
                is_known = _holds(subject, item, at_offset.get(place, ()), known)
            assert is_known, f"{subject.name!r} has {item} at {place}, but must have one of {known}"
        if store.stream_time is not None:
            assert model.observed <= store.stream_time <= upper.observed, (
                f"stream time is {store.stream_time}, not from {model.observed} to {upper.observed}"
            )

    def _written(self, subject: Subject, numbers: Iterable[int]) -> defaultdict[Any, list[Any]]:
        """Return the items that commits write to each place of a store. A deletion gives None."""
        written = defaultdict(list)
        for number in numbers:
            for change in subject.changes(self._seed, number):
                written[subject.place(change)].append(subject.item(change))
        return written


def _loose(subject: Subject, contents: Contents) -> Contents:
    """Remove the end of each version from the contents, because later versions change the ends."""
    if subject.kind.shape != "versioned":
        return contents
    return {place: item for place, (item, _) in contents.items()}


def _holds(subject: Subject, found: Any, wanted: Any, more: list[Any]) -> bool:
    """Return True if a place has the wanted item.

    If the store retains duplicates, all wanted values must be there in their order, and any other
    value must be in ``more``. After a kill between the rows and the offsets of a commit, the commit
    is repeated, and its values are added again.
    """
    if not subject.duplicates:
        return bool(found == wanted)
    rest = iter(found or ())
    return all(item in rest for item in wanted) and set(found or ()) <= {*wanted, *more}
