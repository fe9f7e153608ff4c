"""The lines of ``tests/golden/codec.jsonl``, and tests with one item for all lines of a kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from tests.support.golden import GOLDEN, lines

__all__ = ["CASES", "Case", "check_lines", "encodable", "golden_lines", "of_kind", "pairs"]

Case = dict[str, Any]

CASES: list[Case] = list(lines(GOLDEN / "codec.jsonl"))
_MOST_SHOWN = 20


def of_kind(kind: str, target: str | None = None) -> list[tuple[int, Case]]:
    """The cases of a kind and, of malformed bytes, of a decoder; each with its line in the file."""
    return [
        (number, case)
        for number, case in enumerate(CASES, 1)
        if case["kind"] == kind and target in (None, case.get("target"))
    ]


def golden_lines(
    *kinds: str, targets: Collection[str] | None = None
) -> Callable[[Callable[[Case], None]], Callable[..., None]]:
    """Make a check of one case a test with one item for each kind, or each target of a kind."""
    sources = [(kind, target) for kind in kinds for target in targets or (None,)]

    def decorate(check: Callable[[Case], None]) -> Callable[..., None]:
        @pytest.mark.parametrize("source", sources, ids=[part or kind for kind, part in sources])
        def test(source: tuple[str, str | None]) -> None:
            check_lines(check, of_kind(*source))

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        return test

    return decorate


def check_lines(check: Callable[[Case], None], cases: list[tuple[int, Case]]) -> None:
    """Run a check on every case; the error names each line that failed, and why."""
    assert cases, "no line to check"
    failed: dict[int, BaseException] = {}
    for number, case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  (every line is checked)
            failed[number] = error
    if failed:
        shown = [
            f"line {number}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            for number, error in list(failed.items())[:_MOST_SHOWN]
        ]
        if len(failed) > _MOST_SHOWN:
            shown.append(f"and lines {', '.join(map(str, list(failed)[_MOST_SHOWN:]))}")
        raise AssertionError(
            f"{len(failed)} of {len(cases)} lines of codec.jsonl fail\n" + "\n".join(shown)
        ) from next(iter(failed.values()))


def pairs(headers: list[tuple[str, str | None]] | None) -> list[tuple[str, bytes | None]]:
    return [(key, None if value is None else bytes.fromhex(value)) for key, value in headers or ()]


def encodable(case: Case) -> bool:
    """Whether every key has a UTF-8 form; the JVM writes a ``?`` for a lone surrogate."""
    headers = case["headers"] or ()
    return not any("\ud800" <= char <= "\udfff" for key, _ in headers for char in key)
