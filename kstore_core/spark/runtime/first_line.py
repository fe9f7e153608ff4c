"""Errors of Spark's Python processes whose first line is the text of the kstore error.

Spark copies the traceback of a failed Python process into the message of its own error, so the text
of a kstore error would follow a dozen lines. PySpark leaves out the traceback if the process has
the environment variable ``SPARK_HIDE_TRACEBACK``. A process of Spark ends after it has reported an
error, so the variable has no effect on other errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kstore_core.errors import KStoreError

__all__ = ["without_traceback"]

_RUNTIME, _HIDE = "SPARK_PYTHON_RUNTIME", "SPARK_HIDE_TRACEBACK"
"""Variables of Spark. Spark sets the first one in its Python processes; neither is an option."""


@contextmanager
def without_traceback() -> Iterator[None]:
    """Report only the type and the text of a kstore error to Spark. Other errors are unchanged.

    Outside of Spark's Python processes, this has no effect.
    """
    try:
        yield
    except KStoreError:
        if os.environ.get(_RUNTIME) == "PYTHON_WORKER":
            os.environ[_HIDE] = "1"
        raise
