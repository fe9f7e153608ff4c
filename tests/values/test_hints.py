"""Commands in messages are taken by a shell as they stand."""

import shlex
from pathlib import Path

import pytest

from kstore_core.hints import command


@pytest.mark.parametrize("root", ["/tmp/0_0", "0 0; $(exit)", "it's"])
@pytest.mark.parametrize("store", ["orders", "-x", "--drop-old", "--"])
def test_a_shell_gives_back_what_was_said(root, store):
    words = shlex.split(command("migrate", Path(root), store, options="--drop-old"))
    if store.startswith("-"):
        assert words == ["kstore", "migrate", "--drop-old", "--", root, store]
    else:
        assert words == ["kstore", "migrate", root, store, "--drop-old"]


def test_without_options():
    assert command("doctor", Path("a b")) == "kstore doctor 'a b'"
    assert command("doctor", Path("-x")) == "kstore doctor -- -x"
