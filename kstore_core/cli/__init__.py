"""The command ``kstore``, which inspects state directories of kstore and of Kafka Streams.

Only the commands ``migrate``, ``restore`` and ``upgrade`` change stores in a state directory.
``doctor --set-aside`` renames files there.
"""

from __future__ import annotations

import sys

from kstore_core.hints import install

__all__ = ["main"]


def main() -> None:
    """Run the command line. This is the entry point of the ``kstore`` script."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(
            f"kstore: the command line needs the package {error.name}, which is not installed; "
            f"try: {install('cli')}"
        )
    from kstore_core.cli.app import kstore

    kstore.main(prog_name="kstore")
