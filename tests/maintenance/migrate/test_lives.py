"""Random lives of a store: written to, migrated, and written to again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kstore_core import open_state
from kstore_core.maintenance.migrate import migrate
from kstore_core.testing.kinds import KINDS
from kstore_core.testing.running import quick
from tests.maintenance.migrate.contents import ENGINES, kept
from tests.restore.stores import contents, spec_of, write
from tests.restore.strategies import OPS
from tests.support.sound import assert_sound

FAMILIES = sorted({(kind.family, kind.indexed) for kind in KINDS})
STEPS = st.lists(
    st.tuples(OPS, st.integers(0, 2), st.sampled_from(ENGINES)), min_size=1, max_size=3
)


@quick(40)
@given(st.sampled_from(FAMILIES), st.sampled_from(ENGINES), STEPS)
def test_a_store_answers_the_same_wherever_it_goes(family, engine, steps):
    kinds = [kind for kind in KINDS if (kind.family, kind.indexed) == family]
    kind = kinds[-1]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "0_0"
        for ops, number, other in steps:
            with open_state(root, engine=engine) as state:
                store = state.open(spec_of(kind))
                write(kind, store, ops)
                state.commit()
                answered = contents(kind, store)
            kind, engine = kinds[number % len(kinds)], other
            migrate(root, "s", to=kind.format, engine=engine, lossy=True, drop_old=True)
            with open_state(root) as state:
                assert contents(kind, state.open(spec_of(kind))) == kept(kind, answered)
            assert_sound(root)
