"""Every function of maintenance refuses the same paths with the same errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kstore_core.errors import SpecError, StateError
from kstore_core.maintenance.doctor import examine
from kstore_core.maintenance.finish_upgrade import upgrade
from kstore_core.maintenance.migrate import drop_old, migrate
from kstore_core.maintenance.rescale import rescale_tasks

CALLS = {
    "examine": examine,
    "upgrade": partial(upgrade, store="s"),
    "migrate": partial(migrate, store="s", to="plain"),
    "drop_old": partial(drop_old, store="s"),
    "rescale": partial(rescale_tasks, target="new", partitions=2),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_path_that_is_no_path_is_refused(call: Callable[[str], object], tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    loop = str(tmp_path / "loop" / "x")
    for path, error, message in (
        ("", SpecError, "is empty"),
        ("a\0b", SpecError, "is not a valid path"),
        (loop, StateError, r"cannot be resolved|no state directory|no tasks"),
    ):
        with pytest.raises(error, match=message):
            call(path)
