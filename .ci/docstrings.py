"""A griffe extension: reST markup of docstrings to Markdown, for the pages of the API reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_LITERAL = re.compile(r"^(\s*)::$", re.MULTILINE)


class Markdown(griffe.Extension):
    """Turns roles into code, and takes the marks before literal blocks away."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = _LITERAL.sub("", text)
