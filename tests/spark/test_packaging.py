"""What is sent to the workers of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.flv.media import groups
from tests.spark.media import age, frames_file

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.engine import spark
from spark_analytics.engine.spark import write_package
from spark_analytics.errors import CatalogueError

#: What a worker does, with nothing but the package.
_WORK = """
import sys
sys.path[:0] = [{archive!r}, {folder!r}]
from datetime import UTC, datetime
import spark_analytics.recordings.tasks as task
from spark_analytics.recordings.discover import find_recordings
from spark_analytics.recordings.plan import cut
from spark_analytics.recordings.results import Reading
(file,) = find_recordings([{recording!r}]).files.values()
(lot,) = task.run_task(cut(file, 0, 1 << 30), Reading("run", datetime.now(UTC)))
print(task.__file__.startswith(sys.path[0]), "twisted" in sys.modules, lot.rows)
"""


def test_the_package_is_enough_for_a_worker(tmp_path: Path) -> None:
    """With nothing but numpy and pyarrow beside it, and without Twisted, it reads a recording."""
    archive, recording = tmp_path / "package.zip", tmp_path / "live_a_20260101_120000.flv"
    names = write_package(archive)
    assert {"spark_analytics/recordings/tasks.py", "spark_analytics/event_logs/audience.sql"} <= set(names)
    recording.write_bytes(frames_file(groups(3)))
    age(recording)
    site = Path(pytest.__file__).parent.parent
    for name in ("numpy", "pyarrow", "numpy.libs", "pyarrow.libs"):
        if (site / name).exists():
            (tmp_path / name).symlink_to(site / name)
    code = _WORK.format(archive=str(archive), folder=str(tmp_path), recording=str(recording))
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, rows = done.stdout.split()
    assert (first, second) == ("True", "False")
    assert int(rows) > 0


def test_sources_of_long_ago_are_packed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where builds are to be reproducible; and what was there is replaced at the end only."""
    package = tmp_path / "site" / "old"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    os.utime(package / "__init__.py", (0, 0))
    monkeypatch.setattr(spark, "_PACKAGES", ("old",))
    monkeypatch.syspath_prepend(str(package.parent))
    out = tmp_path / "out.zip"
    out.write_bytes(b"what was there")
    assert write_package(out) == ["old/__init__.py"]
    assert zipfile.ZipFile(out).namelist() == ["old/__init__.py"]
    monkeypatch.setattr(spark, "_PACKAGES", ("old", "no_such_package"))
    with pytest.raises(CatalogueError, match="no_such_package is not installed"):
        write_package(out)
    assert zipfile.ZipFile(out).namelist() == ["old/__init__.py"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zip", "site"]
