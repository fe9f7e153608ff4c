"""A family of decoders: what is checked of any bytes, and bytes to begin with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple, TypeVar, cast

from kstore_core.errors import KStoreError

__all__ = ["FAMILIES", "MAX_BYTES", "Family", "Refused", "family_of", "mutated", "shares", "tried"]

T = TypeVar("T")

FAMILIES = ("numbers", "values", "keys", "versions", "batches", "logs", "entries", "columns")
"""Each the name of a module here."""

MAX_BYTES = 4096
"""The longest input."""


class Family(NamedTuple):
    """Decoders that are fuzzed by one harness.

    Attributes
    ----------
    name : str
    checks : sequence of callable
        Each checks a decoder on any bytes; the first byte of an input says which one it is for.
    seeds : sequence of (int, bytes)
        Inputs that are well-formed, or nearly, each for a check.
    cost : int
        About how many inputs of the cheapest family one of this takes the time of.
    """

    name: str
    checks: Sequence[Callable[[bytes], None]]
    seeds: Sequence[tuple[int, bytes]]
    cost: int = 1

    def check(self, data: bytes) -> None:
        """Check an input; AssertionError or any other error is a fault."""
        if data:
            self.checks[data[0] % len(self.checks)](data[1:])

    def corpus(self) -> list[bytes]:
        """The seeds as inputs."""
        return [bytes([which]) + data for which, data in self.seeds]


class Refused(NamedTuple):
    """What a decoder did not read, and says why."""

    error: KStoreError


def tried(
    decode: Callable[..., T], *arguments: object, refusals: tuple[type[KStoreError], ...]
) -> T | Refused:
    """What a decoder makes of its input, which it may refuse by these errors and no others."""
    try:
        return decode(*arguments)
    except refusals as error:
        return Refused(error)


def family_of(name: str) -> Family:
    """The family of this name; its module is imported now."""
    return cast("Family", import_module(f"tests.fuzz.{name}").FAMILY)


def shares(names: Iterable[str], runs: int) -> dict[str, int]:
    """How many of so many inputs each family gets: the costlier, the fewer."""
    weights = {name: 1 / family_of(name).cost for name in names}
    return {name: round(runs * weight / sum(weights.values())) for name, weight in weights.items()}


def mutated(family: Family, runs: int, seed: int) -> Iterator[bytes]:
    """Inputs where atheris is not to be had: seeds, changed at random, and plain random bytes."""
    chance = random.Random(f"{family.name} {seed}")
    corpus = family.corpus()
    yield from corpus[:runs]
    for _ in range(runs - len(corpus)):
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.randint(1, 4)):
            _mutate(data, corpus, chance)
        yield bytes(data[:MAX_BYTES])


def _mutate(data: bytearray, corpus: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(6)
    if kind == 0:
        del data[at:]
    elif kind == 1:
        del data[at : at + chance.randint(1, 8)]
    elif kind == 2:
        data[at:at] = chance.randbytes(chance.randint(1, 8))
    elif kind == 3:
        other = chance.choice(corpus)
        begin = chance.randrange(len(other) + 1)
        data[at : at + chance.randint(0, 16)] = other[begin : begin + chance.randint(1, 64)]
    elif at < len(data):
        odd = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
        data[at] = chance.choice(odd) if kind == 4 else data[at] ^ 1 << chance.randrange(8)
