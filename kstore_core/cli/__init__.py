"""The command ``kstore``: inspect state directories of kstore and of Kafka Streams.

Only ``migrate``, ``restore`` and ``upgrade`` write, and ``doctor --set-aside`` renames.
"""

from __future__ import annotations

import sys

from kstore_core.hints import install

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the ``kstore`` script."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"kstore: the command line needs {error.name}; try: {install('cli')}")
    from kstore_core.cli.app import kstore

    kstore.main(prog_name="kstore")
