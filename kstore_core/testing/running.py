"""Running hypothesis within the time that a contract run has."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ["quick"]


def quick(examples: int, steps: int = 30) -> settings:
    """Settings for ``examples`` examples of at most ``steps`` steps, whatever an engine takes."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
