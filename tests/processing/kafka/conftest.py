"""The broker of the tests of changelogs."""

from tests.changelog.broker.conftest import broker  # noqa: F401 - a fixture
