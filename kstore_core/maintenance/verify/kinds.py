"""The kind of a store: from its stored spec, else all kinds that its namespaces allow."""

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
    """Known facts on a store.

    Attributes
    ----------
    families : tuple of str
        The possible shapes; one if the shape is known.
    spec : StoredSpec or None
        The stored spec, or the caller's.
    width_ms : int
        The greatest width of a segment; 0 if unknown.
    described : bool
        True if the spec is the caller's. Rows that contradict it may be sound.
    """

    families: tuple[str, ...]
    spec: StoredSpec | None = None
    width_ms: int = 0
    described: bool = False

    @property
    def family(self) -> str | None:
        """The shape, if it is known."""
        return self.families[0] if len(self.families) == 1 else None

    @property
    def in_segments(self) -> bool:
        """Return True if its rows lie in segments of time."""
        return self.family in _IN_SEGMENTS

    def newest(self, namespaces: Iterable[str]) -> ValueFormat | None:
        """The newest format according to the spec and these namespaces; None without a spec."""
        if self.spec is None:
            return None
        kin = of_shape(self.spec.family)
        seen = [f for f in kin if f.namespace in namespaces and self.spec.format.name in f.upgrades]
        return max([self.spec.format, *seen], key=lambda f: len(f.upgrades))

    def format_of(self, namespace: str, namespaces: Iterable[str]) -> ValueFormat | None:
        """Return the format of a namespace; None if the possible shapes disagree on its parts."""
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
        """Return the possible key layouts of rows in segments."""
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
        True if its segments have a database each.
    starts : iterable of int
        The starts of these segments, ms.
    described : bool
        True if the spec is the caller's.
    """
    if spec is not None:
        return Kind((spec.family,), spec, spec.segment_interval_ms or 0, described)
    families = _IN_SEGMENTS if has_children else _IN_ONE
    return Kind(tuple(fitting(families, namespaces)) or families, None, gcd(*starts))
