"""Files of a store are emptied, cut, removed, zeroed, or those of an earlier copy.

Never fewer rows than the offsets tell: what comes of it is an error of kstore's, or the input is
processed again from the offsets on and the store holds what it would hold without the damage.

``KSTORE_DAMAGE=20`` multiplies the cases.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kstore_core.maintenance.doctor import examine
from kstore_core.maintenance.verify import verify
from tests.damage.lives import COMMITS, SPECS, Life, Trial, cut_power, lived, outcome, try_all

TIMES = int(os.environ.get("KSTORE_DAMAGE", "1"))
SEED = 20_261_122

Lives = Callable[[str, str], Life]


pytestmark = pytest.mark.usefixtures("one_process")


@pytest.fixture(scope="module")
def life_of(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """The life of a store; it is made once, because its copies are not changed."""
    return cache(lambda kind, engine: lived(kind, engine, tmp_path_factory.mktemp(kind)))


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_offsets_are_never_ahead_of_rows(
    tmp_path: Path, life_of: Lives, engine: str, kind: str
) -> None:
    life = life_of(kind, engine)
    seen: Counter[str] = Counter()
    for number in range(TIMES):
        counted, wrong = try_all(life, tmp_path, SEED + number, at_most=None if number else 60)
        assert not wrong, "\n".join(wrong)
        seen += counted
    assert seen["right"], seen
    assert len(seen) > 1, seen


@pytest.mark.parametrize("kind", ["clicks", "visits"])
def test_a_power_cut_takes_offsets_back_with_the_rows(
    tmp_path: Path, life_of: Lives, kind: str
) -> None:
    life = life_of(kind, "rocksdb")
    chosen = random.Random(SEED)
    for _ in range(10 * TIMES):
        root = tmp_path / "cut" / "0_0"
        cut_power(life, chosen.randrange(2, COMMITS), root, chosen)
        found = verify(root)
        assert found.exit_code == 0, found.findings
        assert outcome(life, root) == "right"


def newest_and_older(life: Life) -> tuple[Path, Path]:
    """The segment that is written to last, and one before it."""
    root = life.copies[-1]
    found = sorted(root.glob(f"{life.kind}/*"), key=lambda path: int(path.suffix[1:]))
    return found[-1].relative_to(root), found[-3].relative_to(root)


@pytest.mark.parametrize("what", ["removed", "older"])
def test_a_segment_that_lost_more_than_its_log_is_told_of(
    tmp_path: Path, life_of: Lives, what: str
) -> None:
    life = life_of("clicks", "rocksdb")
    newest, older = newest_and_older(life)
    root = tmp_path / "damaged" / "0_0"
    Trial("removed", older, COMMITS - 1, 0).do(life, root)
    found = verify(root)
    assert found.exit_code == 4
    (finding,) = found.findings
    assert finding.what == "segments"
    assert "1 of " in finding.why
    assert "segments in its metadata are missing" in finding.why
    assert f"kstore doctor {root} --set-aside clicks" in finding.why
    Trial(what, newest, COMMITS - 1, 0).do(life, root)
    assert outcome(life, root) in ("InconsistentStateError", "right")
    whole = shutil.copytree(life.copies[-1], tmp_path / "whole" / "0_0")
    assert outcome(life, whole) == "right", "the copy itself"


@pytest.mark.parametrize("what", ["removed", "emptied", "older"])
def test_a_segment_that_was_closed_cleanly_is_read_by_verify(
    tmp_path: Path, life_of: Lives, what: str
) -> None:
    """An open leaves it to the first use of the segment, which may come much later."""
    life = life_of("clicks", "rocksdb")
    _, older = newest_and_older(life)
    root = shutil.copytree(life.root, tmp_path / "0_0")
    assert verify(root).exit_code == 0
    assert examine(root).exit_code == 0
    shutil.rmtree(root / older)
    if what == "emptied":
        (root / older).mkdir()
    elif what == "older":
        first = next(copy for copy in life.copies if (copy / older).is_dir())
        shutil.copytree(first / older, root / older)
    for found in (verify(root), examine(root)):
        assert found.exit_code == 4
        assert [finding.what for finding in found.findings if finding.severity == "corrupt"] == [
            "segments"
        ]
    assert outcome(life, root) in ("InconsistentStateError", "right")
