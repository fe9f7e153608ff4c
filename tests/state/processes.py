"""Another interpreter for the tests of state directories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def lines_of(code: str, argument: Any) -> list[str]:
    """Run code in another interpreter, with JSON as its argument, and return the printed lines."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(argument)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()
