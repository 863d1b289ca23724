"""Answers SQL with Spark: the same questions as DuckDB, where there is a cluster.

A session needs no preparation, opens no port to the world, and says nothing unasked. Workers get this package, and what
it uses that is pure Python, as a file.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from spark_analytics.engine import allow_pandas
from spark_analytics.engine.duck import Telling, parameters_in, silently, tables_in, what_is_read
from spark_analytics.engine.java import find_java_home
from spark_analytics.errors import CatalogueError
from spark_analytics.whole_file import whole_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark_analytics.store.versions import Snapshot


#: What holds wherever it runs. Parquet times are written so that Arrow reads them as they are.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
}

#: These write every error that they raise to the terminal as well.
_PYTHON_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: What holds on this machine only.
_LOCAL_SETTINGS = {
    # On a cluster the page of the driver is where people look at what their job does.
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


#: The path of a socket may have 107 bytes; the name of our folder and what Spark puts after it have 62.
_LONGEST_PARENT = 45


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_running() -> bool:
    """Whether Spark runs in this process already, whichever thread began it."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def build_session(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    name: str = "rtmprelay catalogue",
    verbose: bool = False,
) -> SparkSession:
    """A session; beside the one that a notebook has begun, if there is one, which keeps its settings.

    Args:
        master: Where to run, as Spark writes it; None is all cores of this machine, or what `spark-submit` says.
        settings: Options of Spark that go before ours.
        verbose: Let Java say what it has to say.

    Raises:
        CatalogueError: Spark is not installed, or does not start.
    """
    allow_pandas()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise CatalogueError(
            f"This needs Spark ({error.name} is not installed): pip install 'rtmprelay[spark]'"
        ) from None
    if is_running():
        return _beside(settings or {})
    # The workers must have the Python of this process, and not the first one on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        os.environ["JAVA_HOME"] = find_java_home()
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master or f"local[{cores()}]")
    local = not submitted and (master is None or master.startswith("local"))
    private = _private_folder() if local else {}
    for key, value in {**private, **_all_settings(local, settings or {})}.items():
        builder = builder.config(key, value)
    with _uninterrupted(), _java_output(hidden=not verbose and local) as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise CatalogueError(f"Spark does not start: {_reason(error, said)}") from error
        if not verbose:
            # Commands say in one line what went wrong. On a cluster the log of the driver is all that its keepers have.
            spark.sparkContext.setLogLevel(_log_level(local))
            for logger in _PYTHON_LOGGERS:
                logging.getLogger(logger).disabled = True
    return spark


def _beside(settings: Mapping[str, str]) -> SparkSession:
    """A session of our own where one runs already. What cannot be set for a session alone is as it was begun."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    for key, value in {**_SETTINGS, **settings}.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    make_active(session)
    return session


@contextmanager
def session_for_a_while(
    master: str | None, settings: Mapping[str, str], verbose: bool
) -> Iterator[SparkSession]:
    """A session that ends with the block; where Spark runs already, one beside those that are there, which go on then."""
    if not is_running():
        session = build_session(master, settings, verbose=verbose)
        try:
            yield session
        finally:
            session.stop()
        return
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    session = build_session(master, settings, verbose=verbose)
    try:
        yield session
    finally:
        if before is not None:
            make_active(before)


def make_active(session: SparkSession) -> None:
    """Spark looks for data sources in the session that made a frame last, whichever one it is asked in."""
    session.createDataFrame([], "nothing int")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off what would interrupt the start of Java: PySpark takes away what Java reports to then, and Java stays for ever.
    What is not handled by Python ends this process at once; Java notices that.
    """
    came: list[int] = []

    def later(number: int, _: object) -> None:
        came.append(number)

    before: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(one)
            if callable(handler):
                before[one] = handler
                signal.signal(one, later)
    try:
        yield
    finally:
        for number, handler in before.items():
            # PySpark may have put its own there.
            if signal.getsignal(number) is later:
                signal.signal(number, handler)
    for number in came:
        before[number](number, None)


def _private_folder() -> dict[str, str]:
    """Java and Python talk through sockets in a folder of ours: over TCP there would be a wait of 40 ms for each task that
    follows another. Spark asks for no secret there, so nobody else may look into the folder. What somebody makes with
    `CREATE TABLE` is put there too, and goes with it, instead of staying wherever the command was given.
    """
    folder = tempfile.mkdtemp(prefix="rtmprelay-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tables = {"spark.sql.warehouse.dir": f"{folder}/tables"}
    if len(tempfile.gettempdir()) > _LONGEST_PARENT:
        return tables
    return {
        **tables,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": folder,
    }


def _log_level(local: bool) -> str:
    return "OFF" if local else "WARN"


def _all_settings(local: bool, settings: Mapping[str, str]) -> dict[str, str]:
    # One file for each core would be many for few rows.
    shuffles = {"spark.sql.shuffle.partitions": str(cores())} if local else {}
    return {**_SETTINGS, **(_LOCAL_SETTINGS if local else {}), **shuffles, **settings}


@contextmanager
def _java_output(hidden: bool) -> Iterator[str | None]:
    """Where Java says what it says while it starts, and ever after; None is the terminal.

    The process inherits the standard error of this one: there is no other way to give it another.
    """
    if not hidden:
        yield None
        return
    descriptor, path = tempfile.mkstemp(prefix="rtmprelay-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield path
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(descriptor)
        os.unlink(path)


def _reason(error: Exception, said: str | None) -> str:
    """The line of Java's that says most, or what Python says."""
    lines: list[str] = []
    if said is not None:
        with open(said, errors="replace") as file:
            lines = [line.strip() for line in file]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "error" in line.lower()]
    first = str(error).strip().splitlines()
    return (telling or lines or first or [type(error).__name__])[-1 if not telling else 0][:500]


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


#: On its way to Java, a date is a text whose year must have four digits.
_FIRST_DAY = date(1000, 1, 1)


def _literal(value: Any) -> Any:
    is_date = isinstance(value, date) and not isinstance(value, datetime)
    return max(value, _FIRST_DAY) if is_date else value


class SparkEngine:
    """Answers questions about one version of a catalogue. Every table is a view of the session."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot, telling: Telling = silently) -> None:
        self.snapshot = snapshot
        self._telling = telling
        self._spark = spark
        from spark_analytics.flv.datasource import register

        register(spark)
        snapshot.register(spark)

    def ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Answer a question; `:name` in it is a parameter."""
        values = {name: _literal(parameters[name]) for name in parameters_in(sql)} if parameters else None
        with self._telling(lambda: what_is_read(self.snapshot, tables_in(sql))):
            return self._spark.sql(sql, args=values).toArrow()

    def close(self) -> None:
        """The session is somebody else's."""
