"""Running hypothesis within the time that a contract run has."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["quick", "run_machine"]


def quick(examples: int, steps: int = 30) -> settings:
    """Settings for ``examples`` examples of at most ``steps`` steps, whatever an engine takes."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def run_machine(
    machine: type[RuleBasedStateMachine], *, examples: int = 20, steps: int = 30, **attributes: Any
) -> None:
    """Run a state machine of the kit; fails with the shortest life that breaks a promise.

    Parameters
    ----------
    machine : class
        :class:`EngineMachine`, or one of the machines of a store.
    examples, steps : int
        How many lives, and of how many steps at most.
    **attributes
        What the machine runs with, such as ``make_engine`` and ``kind``.
    """
    fixed = {
        name: staticmethod(value) if callable(value) and not isinstance(value, type) else value
        for name, value in attributes.items()
    }
    run_state_machine_as_test(
        type(machine.__name__, (machine,), fixed), settings=quick(examples, steps)
    )
