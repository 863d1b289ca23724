"""Puts what workers need into a file for `--py-files`: this package, and what it uses that is pure Python."""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spark_analytics.errors import CatalogueError
from spark_analytics.whole_file import whole_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sources, and what they read: questions, and the style of the report.
_SUFFIXES = {".py", ".sql", ".css"}

#: numpy and pyarrow are not pure Python: they must be installed on every machine.
_PACKAGES = ("rtmprelay", "spark_analytics", "attr", "attrs")


def write_package(path: Path) -> list[str]:
    """Write the file, in place of one that is there; the names of what is in it."""
    names: list[str] = []
    with (
        whole_file(path, replace=True) as descriptor,
        open(descriptor, "wb", closefd=False) as out,
        # Sources may be dated 1970, where builds are to be reproducible.
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        for package in _PACKAGES:
            for file in _files_of(package):
                name = str(file.relative_to(_root_of(package)))
                archive.write(file, name)
                names.append(name)
    return names


def _root_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise CatalogueError(
            f"The package {package} is not installed as files, and cannot be sent to workers."
        )
    return Path(found.origin).parent.parent


def _files_of(package: str) -> list[Path]:
    found = (_root_of(package) / package).rglob("*")
    return sorted(file for file in found if file.suffix in _SUFFIXES)


@contextmanager
def shipped_package(spark: SparkSession) -> Iterator[None]:
    """Send the package to workers that are not on this machine; they need not have it installed.

    They fetch it when they begin, which may be late: it is there until the session has ended.
    """
    context = spark.sparkContext
    # Whoever submits this has sent it.
    is_there = context.getConf().get("spark.submit.pyFiles", "")
    if is_there or str(context.master).startswith("local"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rtmprelay-package-") as folder:
        path = Path(folder) / "rtmprelay_spark.zip"
        write_package(path)
        context.addPyFile(str(path))
        yield
