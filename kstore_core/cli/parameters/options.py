"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kstore_core.cli.parameters.values import DURATION
from kstore_core.serdes import BUILT_IN

__all__ = [
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
    help="Print JSON; its shape is documented and stable.",
)

path_argument: Callable[[F], F] = click.argument(
    "path", type=click.Path(exists=True, file_okay=False, path_type=Path)
)

engine_option: Callable[[F], F] = click.option(
    "--engine", metavar="NAME", help="The engine, where the directory does not say."
)


def store_options(command: F) -> F:
    """Options that describe a store and its serdes, for a directory without a spec."""
    serde = click.Choice(sorted(BUILT_IN))
    for option in (
        click.option("--value-serde", type=serde, help="How to read values."),
        click.option("--key-serde", type=serde, help="How to read and type keys."),
        spec_options,
        engine_option,
    ):
        command = option(command)
    return command


def spec_options(command: F) -> F:
    """The description of a store, for a directory that does not say: every command that takes a
    shape takes all of it, so one description serves them all."""
    for option in (
        click.option(
            "--segment-interval",
            "segment_interval_ms",
            type=DURATION,
            help="Kafka's default for the retention if left out.",
        ),
        click.option(
            "--retain-duplicates", is_flag=True, help="Of a window store with many values a window."
        ),
        click.option("--window-size", "window_size_ms", type=DURATION, help="Of a window store."),
        click.option(
            "--retention",
            "retention_ms",
            type=DURATION,
            help="Of a window or session store, or of a history: 60s, 30d.",
        ),
        click.option(
            "--history-retention",
            "history_retention_ms",
            type=DURATION,
            help="Of a versioned store: 60s, 30d.",
        ),
        click.option(
            "--without-index", is_flag=True, help="Of a time-ordered store that has no index."
        ),
        click.option(
            "--time-ordered",
            is_flag=True,
            help="The rows of a window or session store lie by time first.",
        ),
        click.option(
            "--format",
            "value_format",
            type=click.Choice(["plain", "timestamped", "headers"]),
            help="What is stored with a value; with --shape, plain if left out.",
        ),
        click.option(
            "--shape",
            type=click.Choice(["key-value", "versioned", "window", "session"]),
            help="Where the directory does not say.",
        ),
    ):
        command = option(command)
    return command


def key_arguments(command: F) -> F:
    """STORE, KEY and how the key is written."""
    for option in (
        click.option("--key-hex", is_flag=True, help="KEY is the stored bytes, in hex."),
        click.argument("key"),
        click.argument("store"),
        path_argument,
    ):
        command = option(command)
    return command
