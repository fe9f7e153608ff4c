"""One Spark session for all tests, and the marks that every test with Spark needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.support.hdfs.cluster import hdfs, hdfs_bucket  # noqa: F401 - fixtures
from tests.spark.support.object_store import (  # noqa: F401 - fixtures
    azure_bucket,
    azure_server,
    bucket,
    google_bucket,
    google_server,
    own_cache,
    s3_server,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take the session are marked ``spark``; PySpark's word on pandas 3 is no error."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings(_PANDAS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A quiet local session with two cores, stopped at the end."""
    from kstore_core.spark import local_session

    scratch = tmp_path_factory.mktemp("spark")
    session = local_session(
        "kstore-tests",
        shuffle_partitions=3,
        driver_memory="1g",
        config={
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.python.authenticate.socketTimeout": "120s",  # busy machines start workers slowly
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # tests never get hot
        },
    )
    yield session
    session.stop()


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A root that does not exist yet; what the test leaves there is sound."""
    root = tmp_path / "root"
    yield root
    from kstore_core.spark.root.root import Root
    from kstore_core.spark.verify.files import check_files

    if request.node.get_closest_marker("spoils_root") is None and (root / "_kstore").is_dir():
        held = check_files(Root.at(root))
        assert [found for found in held.findings if found.severity != "note"] == []
