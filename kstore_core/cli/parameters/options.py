"""The options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kstore_core.cli.parameters.values import DIRECTORY, DURATION, SERDE

__all__ = [
    "changelog_option",
    "engine_option",
    "json_option",
    "key_arguments",
    "path_argument",
    "spec_options",
    "store_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.meta["kstore.json"] = value
    return value


json_option: Callable[[F], F] = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=_remember,
    help="Print JSON, in a documented and stable form.",
)

path_argument: Callable[[F], F] = click.argument("path", type=DIRECTORY)

engine_option: Callable[[F], F] = click.option(
    "--engine", metavar="NAME", help="The engine, if kstore cannot find it out from the directory."
)


def changelog_option(then: str) -> Callable[[F], F]:
    """Return the option ``--changelog``. Its help ends with the sentence ``then``."""
    text = f"A directory of changelogs in files, or the directory of one log. {then}"
    return click.option("--changelog", metavar="DIR", type=DIRECTORY, help=text)


def store_options(command: F) -> F:
    """Add the options that describe a store, its serdes and its engine to a command."""
    for option in (
        click.option("--value-serde", type=SERDE, help="The serde that decodes the values."),
        click.option(
            "--key-serde",
            type=SERDE,
            help="The serde that decodes the keys, and that converts keys on the command line.",
        ),
        spec_options,
        engine_option,
    ):
        command = option(command)
    return command


def spec_options(command: F) -> F:
    """Add the options that describe a store to a command.

    Users need these options for a store without a stored spec.
    """
    for option in (
        click.option(
            "--segment-interval",
            "segment_interval_ms",
            type=DURATION,
            help="The width of a segment. Default: Kafka's default for the retention.",
        ),
        click.option(
            "--retain-duplicates",
            is_flag=True,
            help="The window store retains several values per window.",
        ),
        click.option(
            "--window-size", "window_size_ms", type=DURATION, help="The length of a window."
        ),
        click.option(
            "--retention",
            "retention_ms",
            type=DURATION,
            help="The retention of a window or session store, or of the history of a versioned "
            "store, such as 60s or 30d.",
        ),
        click.option(
            "--history-retention",
            "history_retention_ms",
            type=DURATION,
            help="The retention of the history of a versioned store, such as 60s or 30d.",
        ),
        click.option("--without-index", is_flag=True, help="The time-ordered store has no index."),
        click.option(
            "--time-ordered",
            is_flag=True,
            help="The rows of the window or session store are sorted by time first.",
        ),
        click.option(
            "--format",
            "value_format",
            type=click.Choice(["plain", "timestamped", "headers"]),
            help="The data stored with a value. Default with --shape: plain.",
        ),
        click.option(
            "--shape",
            type=click.Choice(["key-value", "versioned", "window", "session"]),
            help="The shape of the store, if the directory does not record it.",
        ),
    ):
        command = option(command)
    return command


def key_arguments(command: F) -> F:
    """Add the arguments PATH, STORE and KEY and the option ``--key-hex`` to a command."""
    for option in (
        click.option("--key-hex", is_flag=True, help="KEY is the stored bytes, in hex."),
        click.argument("key"),
        click.argument("store"),
        path_argument,
    ):
        command = option(command)
    return command
