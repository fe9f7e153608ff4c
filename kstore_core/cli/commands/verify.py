"""The command ``kstore verify``, which reads and checks all data without changing it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kstore_core.cli.describing import described_by_options
from kstore_core.cli.output.exit_codes import adapted
from kstore_core.cli.output.printing import print_json
from kstore_core.cli.output.progress import Bar, show_progress
from kstore_core.cli.output.rendering import format_value, json_value, printable
from kstore_core.cli.parameters.options import (
    changelog_option,
    json_option,
    path_argument,
    store_options,
)
from kstore_core.cli.parameters.places import is_root
from kstore_core.errors import SpecError
from kstore_core.maintenance.verify import Finding, Progress, Verified
from kstore_core.maintenance.verify import verify as verify_directory
from kstore_core.maintenance.verify.verifying import DEFAULT_AT_MOST
from kstore_core.spec import StoreSpec

__all__ = ["findings_document", "print_findings", "verify"]

_COLOURS = {"corrupt": "red", "locked": "yellow", "finding": "yellow", "note": "cyan"}


@click.command()
@path_argument
@click.argument("store", required=False)
@changelog_option("With this option, the command also reads the logs.")
@click.option(
    "--compare",
    is_flag=True,
    help="Also restore each store from its changelog to a temporary directory, and compare both "
    "stores. Needs --changelog.",
)
@click.option(
    "--max-findings",
    type=click.IntRange(min=0),
    default=DEFAULT_AT_MOST,
    show_default=True,
    help="The greatest number of findings of the same kind to report per namespace; further "
    "findings are only counted. No limit if 0.",
)
@store_options
@json_option
def verify(
    path: Path,
    store: str | None,
    changelog: Path | None,
    compare: bool,
    max_findings: int,
    engine: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Read and check all stores in PATH, or only STORE.

    The command changes nothing. A child process reads the files, because damaged files may crash
    the process that reads them. If PATH is the root of a store that Spark wrote, the command also
    compares the files with their manifests.
    """
    asked: dict[str, Any] = {
        "spec": _spec(store, options),
        "engine": engine,
        "changelog": changelog,
        "compare": compare,
        "at_most": max_findings,
    }
    with show_progress(_bar) as show:
        if is_root(path):
            from kstore_core.spark.verify.verify_root import verify_root

            listener = None if as_json else _print
            whole = verify_root(path, store, **asked, listener=listener, progress=show)
        else:
            whole = verify_directory(path, store, **asked, progress=show)
    if as_json:
        print_json({"path": str(path), **findings_document(whole), "counts": asdict(whole.counts)})
    elif not is_root(path):
        _print(str(path), whole)
    click.get_current_context().exit(whole.exit_code)


def _spec(store: str | None, options: dict[str, Any]) -> StoreSpec | None:
    """Return the spec that the options describe, or None if no such option is given."""
    if not any(options.values()):
        return None
    if store is None:
        raise SpecError("options that describe a store were given without its name; add STORE")
    if options["shape"] is None:
        raise SpecError("options that describe a store were given without its shape; add --shape")
    return described_by_options(store, options)


def _bar(progress: Progress) -> Bar:
    line = f"{progress.reading}: {progress.rows} rows, {progress.findings} findings"
    return Bar("verify", progress.done, progress.units, line)


def print_findings(found: Verified) -> None:
    """Print one line per finding."""
    for finding in found.findings:
        severity = click.style(finding.severity, fg=_COLOURS[finding.severity], bold=True)
        click.echo(f"{severity} {printable(_line(finding))}")


def _print(place: str, found: Verified) -> None:
    print_findings(found)
    sound = {0: "sound", 1: "readable, with findings", 3: "locked", 4: "corrupt"}
    click.echo(f"{printable(place)}: {sound[found.exit_code]}; read {_counted(found)}")


def _counted(found: Verified) -> str:
    """Return a text with the counts that are not 0."""
    counts = asdict(found.counts)
    read = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    return ", ".join(read) or "nothing"


def _line(finding: Finding) -> str:
    """Return one line of text with a finding's place, kind, reason and remedy."""
    place = finding.place
    where = place.store if place.segment is None else f"{place.store}/{place.segment}"
    if place.shard is not None:
        where = f"{where} shard {place.shard}"
    if place.namespace is not None:
        where += f" [{place.namespace}]"
    if place.key is not None:
        where += f" {format_value(place.key)}"
    what = "" if finding.what == "note" else f"{finding.what}: "
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{where or 'directory'}: {what}{adapted(finding.why)}{remedy}"


def findings_document(found: Verified) -> dict[str, Any]:
    """Return the exit code and the findings as a JSON document."""
    return {
        "exit_code": found.exit_code,
        "findings": [
            {
                "severity": finding.severity,
                "what": finding.what,
                "why": adapted(finding.why),
                "store": finding.place.store,
                "segment": finding.place.segment,
                "namespace": finding.place.namespace,
                "key": json_value(finding.place.key),
                "remedy": finding.remedy,
                **({} if finding.place.shard is None else {"shard": finding.place.shard}),
            }
            for finding in found.findings
        ],
    }
