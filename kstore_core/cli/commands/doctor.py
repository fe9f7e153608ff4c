"""The command ``kstore doctor``, which finds faults of a state directory and its environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kstore_core.cli.commands.verify import findings_document, print_findings
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.rendering import printable
from kstore_core.cli.parameters.options import (
    changelog_option,
    engine_option,
    json_option,
    path_argument,
)
from kstore_core.cli.parameters.places import is_root, refuse_shards
from kstore_core.hints import command
from kstore_core.maintenance.doctor import SetAside, examine
from kstore_core.maintenance.doctor import set_aside as set_store_aside
from kstore_core.maintenance.verify import Verified
from kstore_core.spec import StoredSpec

__all__ = ["doctor"]

_WORDS = {0: "nothing is wrong", 1: "see above", 3: "locked", 4: "corrupt"}
_FORMATS = {False: "plain", True: "timestamped"}


@click.command()
@path_argument
@click.option(
    "--set-aside",
    "store",
    metavar="STORE",
    help="Rename the files of this store, so that the store can be restored. Nothing is deleted.",
)
@changelog_option("With this option, the command also checks the ends of the logs.")
@engine_option
@json_option
def doctor(
    path: Path, store: str | None, changelog: Path | None, engine: str | None, as_json: bool
) -> None:
    """Check the state directory PATH, its stores and their environment.

    Without --set-aside the command changes nothing.
    """
    if store is not None:
        refuse_shards(path)
        done = set_store_aside(path, store, engine=engine)
        if as_json:
            print_json(_aside_document(path, done))
        else:
            text = f"{done.store} was set aside in {done.path}. Restore it with: "
            click.echo(printable(text + _restore(path, done)))
        return
    if is_root(path):
        from kstore_core.spark.verify.verify_root import examine_root

        listener = None if as_json else _print
        whole = examine_root(path, engine=engine, changelog=changelog, listener=listener)
    else:
        whole = examine(path, engine=engine, changelog=changelog)
        if not as_json:
            _print(str(path), whole)
    if as_json:
        print_json({"path": str(path), **findings_document(whole)})
    click.get_current_context().exit(whole.exit_code)


def _print(place: str, found: Verified) -> None:
    print_findings(found)
    words = _WORDS[found.exit_code]
    if found.counts.files:
        words += f"; the sizes of {found.counts.files} files were checked. To check their content, "
        words += "use kstore verify"
    click.echo(f"{printable(place)}: {words}")


def _aside_document(path: Path, done: SetAside) -> dict[str, Any]:
    return {
        "path": str(path),
        "store": done.store,
        "set_aside": str(done.path),
        "restore": _restore(path, done),
    }


def _restore(path: Path, done: SetAside) -> str:
    """Return the command that restores the store."""
    flags = "--shape … and further options" if done.spec is None else _flags(done.spec)
    return command("restore", path, done.store, options=f"--from LOGDIR {flags}")


def _flags(spec: StoredSpec) -> str:
    """Return the command-line options that describe a store."""
    kind = spec.format
    flags = [f"--shape {spec.shape.replace('_', '-')}"]
    stamped = kind.timestamped and not kind.versioned
    flags.append(f"--format {'headers' if kind.headers else _FORMATS[stamped]}")
    for flag, value in (
        ("retention", spec.retention_ms),
        ("history-retention", spec.history_retention_ms),
        ("window-size", spec.window_size_ms),
        ("segment-interval", spec.segment_interval_ms),
    ):
        if value is not None:
            flags.append(f"--{flag} {value}ms")
    flags += ["--retain-duplicates"] * spec.retain_duplicates
    flags += ["--time-ordered"] * spec.time_ordered
    flags += ["--without-index"] * (spec.time_ordered and not spec.indexed)
    return " ".join(flags)
