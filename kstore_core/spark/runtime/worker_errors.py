"""The transfer of kstore's errors from Spark's Python processes to the driver.

Spark copies the text of a failed Python process into the message of its own error. So kstore adds a
note to a kstore error, as the last line of the error's text. The note contains the class and the
attributes of the error, and the driver creates the error from the note. The driver unpickles
nothing.

A traceback of a dozen lines would precede the text of the error. PySpark leaves out the traceback
if the process has the environment variable ``SPARK_HIDE_TRACEBACK``. A process of Spark ends after
it has reported an error, so the variable has no effect on other errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from kstore_core.errors import KStoreError
from kstore_core.spark.runtime.worker_memory import freeze_modules, is_worker

__all__ = ["kstore_error", "told", "typed_errors", "without_traceback"]

_HIDE = "SPARK_HIDE_TRACEBACK"
"""An environment variable of Spark, not of kstore."""

_NOTE = "\n[kstore: "
_MOST = 2000
"""The greatest size of the attributes in a note, in characters. Larger attributes are left out."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def without_traceback() -> Iterator[None]:
    """Report only the type, the text and the note of a kstore error to Spark.

    Other errors are unchanged. Outside of Spark's Python processes, the function has no effect.
    """
    try:
        yield
    except KStoreError as error:
        if is_worker():
            os.environ[_HIDE] = "1"
            _add_note(error)
        raise


def told(function: Callable[[Item], Iterator[Result]]) -> Callable[..., Iterator[Result]]:
    """Wrap the function of a task so that the driver can create the task's kstore errors again.

    After a whole task, the process excludes the modules that the task imported from garbage
    collections. If Spark needs only some of a task's rows, it ends the process.
    """
    return partial(_run, function)


def _run(function: Callable[[Item], Iterator[Result]], given: Item) -> Iterator[Result]:
    with without_traceback():
        yield from function(given)
        freeze_modules()


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the kstore error of a failed Python process in place of Spark's error.

    Spark's error is the cause of the kstore error.
    """
    try:
        yield
    except Exception as error:
        found = kstore_error(error)
        if found is None or found is error:
            raise
        raise found from error


def kstore_error(error: BaseException) -> KStoreError | None:
    """Return the kstore error that made a Spark job fail.

    If a function of kstore runs the job, the function raises the kstore error. Call `kstore_error`
    for an action or a query that you run, such as ``temporal_join(…).collect()``.

    Parameters
    ----------
    error : BaseException
        An error of PySpark, or a kstore error, which is returned unchanged.

    Returns
    -------
    KStoreError or None
        An error of the same class, with the same text and attributes. None if the job failed for
        another reason, or if Spark cut the text.
    """
    if isinstance(error, KStoreError):
        return error
    text = str(error)
    before, mark, after = text.rpartition(_NOTE)
    try:
        names, size, attributes = json.JSONDecoder().raw_decode(after)[0]
        message = before[len(before) - size :] if size else ""
        if not mark or len(message) != size or (size and not before[:-size].endswith(": ")):
            return None
        return _made(names, message, attributes)
    except (AttributeError, KeyError, TypeError, ValueError):  # kstore did not write the text
        return None


def _add_note(error: KStoreError) -> None:
    names = [each.__name__ for each in type(error).__mro__ if issubclass(each, KStoreError)]
    attributes = {
        name: value
        for name, value in vars(error).items()
        if not name.startswith("_") and isinstance(value, (str, int, float, type(None)))
    }
    if len(json.dumps(attributes)) > _MOST:
        attributes = {}
    note = f"{_NOTE[1:]}{json.dumps([names, len(str(error)), attributes])}]"
    notes = [known for known in getattr(error, "__notes__", ()) if not known.startswith(_NOTE[1:])]
    error.__notes__ = [note, *notes]  # PySpark prints the first note after the text


def _made(names: list[str], message: str, attributes: dict[str, Any]) -> KStoreError | None:
    """Create an error of the first class in ``names`` that is known and takes only a text."""
    import_module("kstore_core.typed.serde_failures")  # which has subclasses of SerdeError
    known = {each.__name__: each for each in _subclasses(KStoreError)}
    for name in names:
        try:
            error = known[name](message)
        except (KeyError, TypeError):
            continue
        for attribute in vars(error).keys() & attributes.keys():
            setattr(error, attribute, attributes[attribute])
        return error
    return None


def _subclasses(of: type[KStoreError]) -> Iterator[type[KStoreError]]:
    yield of
    for each in of.__subclasses__():
        yield from _subclasses(each)
