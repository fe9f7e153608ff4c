"""The contract kit: what every engine has to pass, for the authors of engines.

Needs pytest and hypothesis: ``pip install 'kstore[testing]'``. See docs/extending/testing.md.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(f"{__name__}.engine_suite", f"{__name__}.processes")

from kstore_core.testing.engine_suite import EngineSuite  # noqa: E402

__all__ = ["EngineSuite"]
