"""The display of progress on stderr, as a bar on a terminal and otherwise as lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click
from rich.console import Console

from kstore_core.errors import KStoreError

__all__ = ["Bar", "UnfinishedError", "show_progress"]

PRINT_EVERY_S = 5.0

Progress = TypeVar("Progress")


class UnfinishedError(KStoreError):
    """The error that the user has interrupted a command which can be run again to continue."""


class Bar(NamedTuple):
    """The content of a progress bar.

    Attributes
    ----------
    name : str
        The name of the bar. Progress with another name is shown in another bar.
    done, total : int
        The finished part of the work, and all of the work.
    line : str
        The line that is printed if stderr is not a terminal.
    """

    name: str
    done: int
    total: int
    line: str


@contextmanager
def show_progress(bar: Callable[[Progress], Bar]) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress. ``bar`` converts its argument to a `Bar`."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines(bar)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}

        def show(progress: Progress) -> None:
            name, done, total, _ = bar(progress)
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield show


def lines(bar: Callable[[Progress], Bar]) -> Callable[[Progress], None]:
    """Return a function that prints a line of progress, but at most one line every few seconds."""
    last = time.monotonic()

    def say(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PRINT_EVERY_S:
            last = now
            click.echo(f"kstore: {bar(progress).line}", err=True)

    return say
