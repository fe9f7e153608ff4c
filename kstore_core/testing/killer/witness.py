"""What a writer says it has done, in a file that is not the store's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Testimony", "Witness", "read_testimony"]


class Witness:
    """Appends a line at each step; one that is written survives the writer's death.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, line: str) -> None:
        """Say one thing, at once."""
        os.write(self._file, f"{line}\n".encode())


@dataclass(frozen=True)
class Testimony:
    """What has been said.

    Attributes
    ----------
    opened : bool
        The writer had its stores open.
    begun, called, returned : int
        The highest number whose changes were begun, whose commit was called, and whose commit came
        back; 0 for none.
    commits : int
        How many came back.
    failure : str or None
        The writer ended by an error, which it should not.
    """

    opened: bool
    begun: int
    called: int
    returned: int
    commits: int
    failure: str | None

    @property
    def in_commit(self) -> bool:
        """The last commit that was called never came back."""
        return self.called > self.returned


def read_testimony(path: Path) -> Testimony:
    """What the writer has said so far; a line without an end does not count."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    said, _, failure = text.partition("failed\n")
    lines = [line.split() for line in said.split("\n")[:-1]]

    def numbers(step: str) -> list[int]:
        return [int(line[1]) for line in lines if line[0] == step]

    return Testimony(
        ["open"] in lines,
        max(numbers("begun"), default=0),
        max(numbers("called"), default=0),
        max(numbers("returned"), default=0),
        len(numbers("returned")),
        failure or None,
    )
