"""The file in which a writer reports its steps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["StepWriter", "Steps", "read_steps"]


class StepWriter:
    """An object that appends a line to a file for each step of a writer.

    A written line remains if the writer is killed.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, line: str) -> None:
        """Write one line without a buffer."""
        os.write(self._file, f"{line}\n".encode())


@dataclass(frozen=True)
class Steps:
    """The steps that a writer has reported.

    Attributes
    ----------
    opened : bool
        True if the writer has opened its stores.
    begun, called, returned : int
        The numbers of the last commit whose changes were begun, of the last commit that was called,
        and of the last commit that returned. 0 if there is no such commit.
    commits : int
        The number of commits that returned.
    failure : str or None
        The traceback of an error that ended the writer.
    """

    opened: bool
    begun: int
    called: int
    returned: int
    commits: int
    failure: str | None

    @property
    def in_commit(self) -> bool:
        """True if the last commit was called but has not returned."""
        return self.called > self.returned


def read_steps(path: Path) -> Steps:
    """Read the steps that a writer has reported so far. Ignore an incomplete line."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    steps, _, failure = text.partition("failed\n")
    lines = [line.split() for line in steps.split("\n")[:-1]]

    def numbers(step: str) -> list[int]:
        return [int(line[1]) for line in lines if line[0] == step]

    return Steps(
        ["open"] in lines,
        max(numbers("begun"), default=0),
        max(numbers("called"), default=0),
        max(numbers("returned"), default=0),
        len(numbers("returned")),
        failure or None,
    )
