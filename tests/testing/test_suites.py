"""The suites of the kit are made of parts, and no part hides a test of another."""

from collections import Counter

import pytest

from kstore_core.testing import EngineSuite, StoreSuite


@pytest.mark.parametrize("suite", [EngineSuite, StoreSuite])
def test_no_part_hides_a_test_of_another(suite):
    names = Counter(
        name for part in suite.__mro__ for name in vars(part) if name.startswith("test_")
    )
    assert names
    assert [name for name, count in names.items() if count > 1] == []
