"""The functions that run Hypothesis tests with time limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine as conjecture
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["at_random", "quick", "run_machine", "shrinking_for"]

_SHRINKING_S = 5.0

Test = TypeVar("Test", bound=Callable[..., None])


def quick(examples: int, steps: int = 30) -> settings:
    """Return Hypothesis settings for ``examples`` examples of at most ``steps`` steps."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def at_random(test: Test) -> Test:
    """Mark a test of a suite as random, so that it is skipped if another test has failed."""
    test.at_random = True  # type: ignore[attr-defined]
    return test


@contextmanager
def shrinking_for(seconds: float = _SHRINKING_S) -> Iterator[None]:
    """Limit the time in which Hypothesis searches for a shorter failing example.

    Without a limit this search takes up to five minutes.
    """
    name = "MAX_SHRINKING_SECONDS"
    if hasattr(conjecture, name):
        with mock.patch.object(conjecture, name, seconds):
            yield
    else:  # another release of Hypothesis
        yield


def run_machine(
    machine: type[RuleBasedStateMachine],
    *,
    examples: int = 20,
    steps: int = 30,
    shrinking_s: float = _SHRINKING_S,
    **attributes: Any,
) -> None:
    """Run one of the state machines. If it fails, the error shows a short sequence of calls.

    Parameters
    ----------
    machine : class
        :class:`EngineMachine`, or one of the machines of a store.
    examples, steps : int
        The number of sequences, and the maximum number of steps of a sequence.
    shrinking_s : float
        The time limit of the search for a shorter failing sequence, in seconds.
    **attributes
        The attributes to set on the machine, such as ``make_engine`` and ``kind``.
    """
    fixed = {
        name: staticmethod(value) if callable(value) and not isinstance(value, type) else value
        for name, value in attributes.items()
    }
    with shrinking_for(shrinking_s):
        run_state_machine_as_test(
            type(machine.__name__, (machine,), fixed), settings=quick(examples, steps)
        )
