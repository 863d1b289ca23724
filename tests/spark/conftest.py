"""One Spark session for all tests that need one; it takes longer to start than most of them to run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.store.versions import Snapshot

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, so that `-m "not spark"` leaves them out."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits() -> Iterator[None]:
    """On a busy machine any command takes over a second, and would say what it reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_analytics.cli.output.PATIENCE", 600.0)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A local session with two cores, as the commands have it. Only in the full run its questions are compiled: that takes
    many times longer than to answer them for the few rows of tests.
    """
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")
    from spark_analytics.engine.spark import build_session
    from tests.spark.cluster import QUICK_JAVA
    from tests.spark.event_archive import FOR_FEW_ROWS

    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    if not pytestconfig.getoption("full"):
        settings |= FOR_FEW_ROWS
    session = build_session("local[2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it may be after a bad day; nobody changes it."""
    pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")
    from tests.spark.world import make_world

    folder = tmp_path_factory.mktemp("recordings")
    make_world(folder)
    return folder


@pytest.fixture(scope="session")
def snapshot(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """The catalogue of it, made in this process; nobody changes it."""
    from tests.spark.world import index

    return index(recordings, tmp_path_factory.mktemp("catalogue") / "new")
