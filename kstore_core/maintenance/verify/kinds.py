"""The kind of a store: its spec or, if the spec is unknown, the shapes that fit its namespaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from kstore_core.formats import ValueFormat, fitting, of_shape
from kstore_core.keys import RowKeys, rows_of
from kstore_core.spec import StoredSpec

__all__ = ["Kind", "kind_of"]

_IN_ONE = ("key_value", "versioned")
_IN_SEGMENTS = ("window", "session", "time_ordered_window", "time_ordered_session")
_ORDERED = "time_ordered_"


@dataclass(frozen=True, slots=True)
class Kind:
    """The known or possible shapes of a store, and its spec.

    Attributes
    ----------
    families : tuple of str
        The possible families of the store; a single family if it is known. A family is a shape,
        with the prefix ``time_ordered_`` if the keys of the rows begin with the time.
    spec : StoredSpec or None
        The stored spec, or the spec that the caller passed.
    width_ms : int
        The upper limit of a segment's width in ms; 0 if it is unknown.
    described : bool
        True if the spec was passed to the verification, False if it is the stored spec. A passed
        spec may be wrong, so a row that contradicts it may be sound.
    """

    families: tuple[str, ...]
    spec: StoredSpec | None = None
    width_ms: int = 0
    described: bool = False

    @property
    def family(self) -> str | None:
        """The family of the store; None if several families are possible."""
        return self.families[0] if len(self.families) == 1 else None

    @property
    def in_segments(self) -> bool:
        """True if the store keeps its rows in segments of time."""
        return self.family in _IN_SEGMENTS

    def newest(self, namespaces: Iterable[str]) -> ValueFormat | None:
        """Return the newest format that the store has, from the spec and from ``namespaces``.

        Return None if there is no spec.
        """
        if self.spec is None:
            return None
        kin = of_shape(self.spec.family)
        seen = [f for f in kin if f.namespace in namespaces and self.spec.format.name in f.upgrades]
        return max([self.spec.format, *seen], key=lambda f: len(f.upgrades))

    def format_of(self, namespace: str, namespaces: Iterable[str]) -> ValueFormat | None:
        """Return the format of the rows in a namespace.

        Return None if the possible families give different formats.
        """
        newest = self.newest(namespaces)
        found = {
            f
            for family in self.families
            for f in of_shape(family)
            if f.namespace == namespace
            and (newest is None or f == newest or f.name in newest.upgrades)
        }
        made_of = {(f.timestamped, f.headers, f.versioned) for f in found}
        return found.pop() if len(made_of) == 1 else None

    def row_keys(self) -> list[RowKeys]:
        """Return the key layouts that rows in segments of this store may have."""
        return [
            rows_of(
                family.removeprefix(_ORDERED),
                time_ordered=family.startswith(_ORDERED),
                indexed=family.startswith(_ORDERED) and (self.spec is None or self.spec.indexed),
            )
            for family in self.families
            if family in _IN_SEGMENTS
        ]


def kind_of(
    spec: StoredSpec | None,
    namespaces: Iterable[str],
    *,
    has_children: bool,
    starts: Iterable[int] = (),
    described: bool = False,
) -> Kind:
    """Return the kind of a store.

    Parameters
    ----------
    spec : StoredSpec or None
    namespaces : iterable of str
        The namespaces of the store.
    has_children : bool
        True if each segment of the store has its own database.
    starts : iterable of int
        The start times of these segments, in ms.
    described : bool
        True if the spec was passed to the verification, False if it is the stored spec.
    """
    if spec is not None:
        return Kind((spec.family,), spec, spec.segment_interval_ms or 0, described)
    families = _IN_SEGMENTS if has_children else _IN_ONE
    return Kind(tuple(fitting(families, namespaces)) or families, None, gcd(*starts))
