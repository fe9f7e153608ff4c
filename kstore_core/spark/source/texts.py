"""Functions that convert the texts of options to values.

If a text is wrong, the functions without a parameter ``spec`` raise a ValueError that names the
fault.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kstore_core import serdes
from kstore_core.errors import SpecError
from kstore_core.spark.read.selection import key_bytes
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.types import to_millis

__all__ = [
    "count_of",
    "flag_of",
    "key_of",
    "key_of_json",
    "list_of",
    "names_of",
    "number_of",
    "numbers_of",
    "one_of",
    "prefix_of",
    "spec_of",
    "text_of",
    "time_of",
]


def text_of(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def flag_of(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("no other text is allowed") from None


def time_of(text: str) -> int:
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return to_millis(int(text))
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError(
            "it has no UTC offset, so its instant is unknown; add Z, or an offset such as +01:00"
        )
    return to_millis(moment)


def number_of(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip()):
        raise ValueError("it must be 1 to 18 digits")
    return int(text)


def count_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise ValueError(f"it is not an integer from 1 to {2**31 - 1}")
    return int(text)


def numbers_of(text: str) -> tuple[int, ...]:
    return tuple(number_of(part) for part in text.split(","))


def names_of(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def list_of(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, list):
        raise ValueError(f"the JSON must be a list, not {type(found).__name__}")
    return found


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("no other text is allowed")
        return text

    return parse


def spec_of(text: str) -> StoreSpec:
    """Return the StoreSpec that a text describes.

    The text is a description in JSON, or has the form ``module:NAME``. For ``module:NAME``, the
    function imports the module and returns the variable ``NAME`` of the module.
    """
    if text.lstrip().startswith("{"):
        return StoredSpec.parse(text.encode()).spec()
    module, _, name = text.partition(":")
    if not name:
        raise ValueError("JSON must begin with a brace, and module:NAME must contain a colon")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{error}; install the module for Spark's Python") from error
    if not isinstance(found, StoreSpec):
        raise ValueError(f"it names a {type(found).__name__}, not a StoreSpec")
    return found


def key_of(spec: StoreSpec, text: str) -> bytes:
    """Return the serialised key for the text of a key.

    Parse the text with :func:`kstore_core.serdes.value_of_text`. If the keys are bytes and the text
    begins with ``0x``, decode the rest of the text as hexadecimal; encode other texts as UTF-8.
    Raise a SpecError if the text is not a key of the store.
    """
    serde: Any = spec.key
    key: Any = text
    try:
        if serde is serdes.BYTES:
            key = bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
        else:
            key = serdes.value_of_text(serde, text)
    except ValueError as error:
        raise SpecError(
            f"{text!r:.200} is not a key of the store {spec.name!r}, whose key serde is "
            f"{serde.name!r}: {error}"
        ) from error
    return key_bytes(spec, key)


def key_of_json(spec: StoreSpec, value: Any) -> bytes:
    """Return the serialised key for a value in a JSON list.

    If the value is a string and the store's keys are not JSON, :func:`key_of` converts the string.
    """
    if isinstance(value, str) and spec.key is not serdes.JSON:
        return key_of(spec, value)
    return key_bytes(spec, value)


def prefix_of(spec: StoreSpec, text: str) -> bytes:
    """Return the first bytes of the serialised keys that the option ``prefix`` selects.

    Encode the text as UTF-8. But if the store's keys are neither text nor JSON and the text begins
    with ``0x``, decode the rest of the text as hexadecimal.
    """
    if spec.key is serdes.UTF8 or spec.key is serdes.JSON or not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise SpecError(
            f"the option prefix={text!r} is not hexadecimal after 0x: {error}"
        ) from error
