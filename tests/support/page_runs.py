"""The code blocks of a page, run one after the other."""

import contextlib
import io
import re
from pathlib import Path

from tests.support.places import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document):
    return [(match[1], match[2]) for match in BLOCK.finditer(Path(ROOT, document).read_text())]


def run(document):
    """Run the Python blocks one after the other; pairs of what was printed and what is promised."""
    found = blocks(document)
    names = {}
    printed = []
    for index, (language, text) in enumerate(found):
        if language != "python":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, document, "exec"), names)
        after = found[index + 1] if index + 1 < len(found) else ("", "")
        printed.append((out.getvalue(), after[1] if after[0] == "text" else ""))
    return names, printed


def check_printed(document, count=None):
    """Run a page, check that each block prints what the page promises, and return these texts.

    With a count, the page must have so many Python blocks.
    """
    _, printed = run(document)
    assert len(printed) == count if count is not None else printed
    for found, promised in printed:
        assert found == promised
    return [promised for _, promised in printed]
