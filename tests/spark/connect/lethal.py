"""A root at which the worker that publishes a version is killed once."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.write.job import WriteJob
from kstore_core.spark.write.write_store import _planned

LETHAL = "lethal"
"""The file beside the server's directory that names the step after which the worker is killed."""


class LethalRoot(Root):
    """A root whose publication ends the worker after the step that the file `LETHAL` names."""

    def close(self, job: str) -> None:
        self._die("begun")
        super().close(job)
        self._die("closed")

    def publish(self, manifest: Manifest) -> None:
        super().publish(manifest)
        self._die("published")

    def _die(self, step: str) -> None:
        lethal = Path(str(self)).parents[1] / LETHAL
        if lethal.exists() and lethal.read_text() == step:
            lethal.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def lethally_planned(*arguments: Any, **named: Any) -> WriteJob:
    """Plan the job of a write to a `LethalRoot`."""
    job = _planned(*arguments, **named)
    assert isinstance(job, WriteJob)
    return dataclasses.replace(job, root=LethalRoot(job.root.storage))
