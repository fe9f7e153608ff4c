"""The conversion of a text, such as an argument of a command, to a value of a serde."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal, InvalidOperation
from typing import Any

from kstore_core.serdes.built_in import BOOLEAN, DATE, FLOAT64, INT32, INT64, JSON, TIMESTAMP
from kstore_core.serdes.serde import Serde
from kstore_core.serdes.typed import TypedSerde, json_row

__all__ = ["value_of_text"]


def value_of_text(serde: Serde[Any], text: str) -> Any:
    """Convert a text to a value of a serde.

    The text of a date or of a time has the form of ISO 8601, and the text of a row is a JSON
    object. For ``UTF8``, ``BYTES``, ``record`` and serdes that are not built in, the function
    returns the text itself.

    Raises
    ------
    ValueError
        The text describes no value of the serde.
    """
    if serde in (INT32, INT64):
        return int(text)
    if serde is FLOAT64:
        return float(text)
    if serde is JSON:
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error
    if serde is BOOLEAN:
        if text not in ("true", "false"):
            raise ValueError("a boolean must be true or false")
        return text == "true"
    if serde is DATE:
        return datetime.date.fromisoformat(text)
    if serde is TIMESTAMP:
        return datetime.datetime.fromisoformat(text)
    if isinstance(serde, TypedSerde) and serde.form == "decimal":
        try:
            return Decimal(text)
        except InvalidOperation:
            raise ValueError("a decimal must have digits and at most one point") from None
    if isinstance(serde, TypedSerde):
        return json_row(serde.kind).decode(text.encode())
    return text
