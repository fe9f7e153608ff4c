"""What is given as a changelog and is none: a typed error that says what one is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.changelog import ChangelogDirectory, FileChangelog
from kstore_core.codec import LogRecord
from kstore_core.errors import SpecError
from kstore_core.maintenance.migrate import migrate
from kstore_core.offsets.position import encode_position

SPEC = stores.key_value("s")
RECORD = LogRecord(0, 1, b"k", b"v")


@pytest.mark.parametrize(
    "given",
    [[], [RECORD], None, 7, "logs", Path("logs"), RECORD, {}, iter([RECORD]), object()],
    ids=lambda given: type(given).__name__,
)
def test_restore_says_what_a_changelog_is(given: Any, tmp_path: Path) -> None:
    said = re.escape(repr(given)) if isinstance(given, (str, Path)) else type(given).__name__
    words = rf"a changelog must be an object with .* not .*{said}\. Open .*FileChangelog\(root"
    with open_state(tmp_path / "0_0", engine="lmdb") as state:
        with pytest.raises(TypeError, match=words):
            state.restore(SPEC, given)
        assert state.stores() == []


def test_a_directory_of_logs_is_no_log(tmp_path: Path) -> None:
    with (
        open_state(tmp_path / "0_0", engine="memory") as state,
        pytest.raises(TypeError, match=r"not a ChangelogDirectory\. .* changelog_of\(spec, path\)"),
    ):
        state.restore(SPEC, ChangelogDirectory(tmp_path))  # type: ignore[arg-type]


def test_migrate_says_so_too(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="lmdb") as state:
        state.open(SPEC).put(b"k", b"v")
    to = stores.versioned_key_value("s", 60_000)
    with pytest.raises(TypeError, match="a changelog must be an object with topic"):
        migrate(tmp_path / "0_0", "s", to=to, from_log=[RECORD])  # type: ignore[arg-type]


class Renumbered(FileChangelog):
    """A log that says another partition than its directory."""

    def __init__(self, root: Path, number: Any) -> None:
        super().__init__(root, "app-s-changelog")
        self.partition = number


@pytest.mark.parametrize("number", [-1, -(2**31), 2**31])
def test_a_partition_that_no_topic_has(number: int, tmp_path: Path) -> None:
    """It would be stored as an offset of another topic, or not at all."""
    with Renumbered(tmp_path, number) as log:
        log.append(b"k", b"v", 1)
        log.commit()
        with (
            open_state(tmp_path / "0_0", engine="lmdb") as state,
            pytest.raises(
                SpecError,
                match=rf"partition {number}, has a bad topic or partition: .* must be between",
            ),
        ):
            state.restore(SPEC, log)
        with pytest.raises(SpecError, match="has a bad topic or partition"):
            open_state(tmp_path / "0_1", engine="lmdb", changelog=log)
    with open_state(tmp_path / "0_0", engine="lmdb") as state:
        assert (state.stores(), state.offsets()) == ([], {})


def test_a_position_of_a_negative_partition_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A record may say how far its writer had read; no partition of its input is negative."""
    position = encode_position({"input": {-3: 7}})
    with FileChangelog(tmp_path, "app-s-changelog") as log:
        log.append(b"k", b"v", 1, [("v", b"\0"), ("c", position)])
        log.commit()
    with (
        open_state(tmp_path / "0_0", engine="lmdb") as state,
        FileChangelog(tmp_path, "app-s-changelog", read_only=True) as log,
    ):
        assert state.restore(SPEC, log).records == 1
        assert state.open(SPEC).position == {}
    assert "but the position has -3" in caplog.text
